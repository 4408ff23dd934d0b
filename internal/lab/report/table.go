package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// column is one column of the tables.
type column struct {
	head, measure string
	text          func(float64) string
}

// columns of every table, from left to right.
func columns() []column {
	share := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	percent := func(v float64) string { return fmt.Sprintf("%.2f %%", 100*v) }
	ms := func(v float64) string { return fmt.Sprintf("%.0f ms", 1000*v) }
	return []column{
		{"goodput", "goodput", share},
		{"of ceiling", "ofCeiling", func(v float64) string {
			if v < 0 {
				return "–" // unknown
			}
			return share(v)
		}},
		{"good", "good", share},
		{"p50", "p50", ms},
		{"p99", "p99", ms},
		{"refused", "refused", percent},
		{"falsely", "falseRefused", percent},
		{"failed", "failed", percent},
		{"attempts", "attempts", func(v float64) string { return fmt.Sprintf("%.2f", v) }},
		{"recovers", "recover", func(v float64) string { return fmt.Sprintf("%.1f s", v) }},
	}
}

// cells returns the header and the lines of one window's table.
func (v *Variant) cells(window int) (head []string, lines [][]string) {
	head = []string{""}
	for _, c := range columns() {
		head = append(head, c.head)
	}
	for _, row := range v.Rows {
		line := []string{row.Contender}
		for _, c := range columns() {
			line = append(line, c.text(row.Windows[window][c.measure].Mean))
		}
		lines = append(lines, line)
	}
	return head, lines
}

// WriteText writes the report as tables for a terminal.
func (r *Report) WriteText(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, s := range r.Scenarios {
		for i := range s.Variants {
			v := &s.Variants[i]
			for window, name := range v.Windows {
				fmt.Fprintf(tw, "%s, %s: %s\n", s.Name, v.Name, name)
				head, lines := v.cells(window)
				for _, line := range append([][]string{head}, lines...) {
					fmt.Fprintln(tw, strings.Join(line, "\t")+"\t")
				}
				if err := tw.Flush(); err != nil {
					return fmt.Errorf("lab: write table: %w", err)
				}
				fmt.Fprintln(w)
			}
		}
	}
	for i := range r.Verdicts {
		if _, err := fmt.Fprintln(w, r.Verdicts[i].String()); err != nil {
			return fmt.Errorf("lab: write verdicts: %w", err)
		}
	}
	return nil
}
