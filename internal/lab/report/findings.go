package report

import _ "embed" // for the findings

//go:embed findings.md
var findings string

// Findings returns what the results mean, in words, as Markdown.
func Findings() string { return findings }
