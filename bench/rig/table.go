package rig

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Median returns the value in the middle; 0 for none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	return sorted[len(sorted)/2]
}

// Table prints a table in Markdown.
func Table(out io.Writer, head []string, rows [][]string) {
	line := func(cells []string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(out, "|%s\n", strings.Repeat("---|", len(head)))
	for _, r := range rows {
		line(r)
	}
}

// Ratio prints v as a multiple of of, "–" without one.
func Ratio(v, of float64) string {
	if of == 0 {
		return "–"
	}
	return fmt.Sprintf("%.2f", v/of)
}

// Millis prints a duration in milliseconds, to two places.
func Millis(seconds float64) string { return fmt.Sprintf("%.2f ms", seconds*1e3) }

// MiB prints bytes.
func MiB(bytes int64) string { return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20)) }

// Seconds returns d in seconds.
func Seconds(d time.Duration) float64 { return d.Seconds() }
