package top

import (
	"fmt"
	"strconv"
	"strings"
)

// narrow is the width, in characters, below which only the columns are shown
// that answer the first questions: who is refused or fails, why, and how slow it
// is.
const narrow = 110

// column is one column of the table. Its widths are in characters; 0 leaves it
// out.
type column struct {
	title        string
	wide, narrow int
	left         bool
	show         func(r *row) string
}

// columns returns the table's columns, from left to right. The last one takes
// what room is left.
func columns() []column {
	return []column{
		{"PARTITION", 20, 15, true, func(r *row) string { return r.Name }},
		{"REF/s", 7, 6, false, func(r *row) string { return short(r.rejected) }},
		{"SHARE", 5, 0, false, (*row).share},
		{"FAIL/s", 7, 6, false, func(r *row) string { return short(r.failed) }},
		{"ADM/s", 7, 6, false, func(r *row) string { return short(r.admitted) }},
		{"FLIGHT/L", 0, 8, false, func(r *row) string { return fmt.Sprintf("%d/%d", r.InFlight, r.Limit) }},
		{"FLIGHT", 6, 0, false, func(r *row) string { return strconv.Itoa(r.InFlight) }},
		{"LIMIT", 5, 0, false, func(r *row) string { return strconv.Itoa(r.Limit) }},
		{"USE", 5, 0, false, func(r *row) string { return fmt.Sprintf("%.0f%%", 100*r.use()) }},
		{"QUEUED", 6, 0, false, func(r *row) string { return strconv.Itoa(r.Queued) }},
		{"RTT", 7, 6, false, func(r *row) string { return milliseconds(r.rtt) }},
		{"BASE", 7, 6, false, func(r *row) string { return milliseconds(r.BaseRTTMS) }},
		{"ALGORITHM", 10, 0, true, (*row).algorithm},
		{"MOSTLY FOR", 10, 10, true, func(r *row) string { return words(r.reason) }},
	}
}

// share is how much of what was received was refused.
func (r *row) share() string {
	if r.received <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", 100*r.rejected/r.received)
}

// algorithm marks the fallback.
func (r *row) algorithm() string {
	if r.Fallback {
		return r.Algorithm + "*"
	}
	return r.Algorithm
}

// line renders one line of the table for a terminal of width columns, 0 =
// unbounded; the headings when there is no row. The column of the ingress is
// left out when there is only one.
func (v *View) line(width int, r *row) string {
	var b strings.Builder
	if len(v.now.Ingresses) > 1 {
		name := "INGRESS"
		if r != nil {
			name = r.ingress
		}
		b.WriteString(padded(name, 12) + " ")
	}
	for _, c := range columns() {
		size := c.wide
		if width > 0 && width < narrow {
			size = c.narrow
		}
		if size == 0 {
			continue
		}
		text := c.title
		if r != nil {
			text = c.show(r)
		}
		switch {
		case c.title == "MOSTLY FOR":
			b.WriteString(" " + text)
		case c.left:
			b.WriteString(padded(text, size) + " ")
		default:
			fmt.Fprintf(&b, "%*s ", size, text)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// styleOf returns the look of a level of a verdict.
func styleOf(level string) string {
	switch level {
	case "bad":
		return red
	case "warn":
		return yellow
	default:
		return ""
	}
}
