// Package uplot holds uPlot 1.6.32 as npm has it, with its licence, for the live
// page and for the reports of the lab.
package uplot

import "embed"

// Files has the library, its style sheet and its licence below lib.
//
//go:embed lib
var Files embed.FS

// The same as text.
var (
	//go:embed lib/uplot-1.6.32.iife.min.js
	JS string
	//go:embed lib/uplot-1.6.32.min.css
	CSS string
	//go:embed lib/uplot-LICENSE.txt
	Licence string
)
