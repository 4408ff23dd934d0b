package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/admitd/admitd/status"
)

// View is what top shows: two readings and how to look at them. It does no
// input or output. The zero view is in the first order.
//
// A view belongs to one goroutine.
type View struct {
	Order   Order
	Ingress string        // only this one, "" = all
	Colour  bool          // Lines may be drawn in colour
	Failure error         // why there is no newer reading, nil = there is
	Silence time.Duration // since the last reading, while there is a failure

	turned bool // the order is the other way round
	paused bool
	first  int // row on top
	page   int // rows that fit, of the last drawing

	now, before *status.Document
}

// Take shows a newer reading, unless paused.
func (v *View) Take(s *status.Document) {
	if !v.paused {
		v.before, v.now = v.now, s
	}
}

// Key obeys a key and reports whether it quits.
func (v *View) Key(key string) (quit bool) {
	for _, o := range orders() {
		if key == o.key {
			v.turned = o.name == v.Order.name && !v.turned
			v.Order, v.first = o, 0
			return false
		}
	}
	switch key {
	case "q", "Q", "\x03", "\x04": // Ctrl-C, Ctrl-D; not Esc, which may be the torn-off start of an arrow
		return true
	case "p", " ":
		v.paused = !v.paused
	case "\x1b[A", "k":
		v.first--
	case "\x1b[B", "j":
		v.first++
	case "\x1b[5~":
		v.first -= v.page
	case "\x1b[6~":
		v.first += v.page
	case "\x1b[H", "\x1b[1~":
		v.first = 0
	case "\x1b[F", "\x1b[4~":
		v.first = 1 << 30
	}
	return false
}

// Line is one line of text and how it looks.
type Line struct {
	Text  string
	Style string // SGR parameters, "" = plain
}

// styled returns the line with its escape sequences.
func (l Line) styled(colour bool) string {
	if !colour || l.Style == "" {
		return l.Text
	}
	return "\x1b[" + l.Style + "m" + l.Text + "\x1b[0m"
}

// Looks of a line.
const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	yellow  = "33"
	reverse = "7"
)

// Lines renders the view for a terminal of width columns and height lines. A
// width or height of 0 is unbounded, and leaves out the help.
func (v *View) Lines(width, height int) []Line {
	var out []Line
	if v.now == nil {
		out = append(out, Line{"admitd top: reading the status …", ""})
	} else {
		out = v.summary()
	}
	told := len(out)
	out = append(out, v.failure()...)
	rest := len(out)
	if v.now != nil {
		out = append(out, Line{}, Line{v.line(width, nil), reverse})
		room := -1
		if height > 0 {
			room = max(height-len(out)-1, 1)
		}
		out = append(out, v.table(width, room)...)
	}
	if v.Failure != nil { // what is shown is of the past
		for i := range out {
			if i < told || i >= rest {
				out[i].Style = dim
			}
		}
	}
	if height > 0 {
		if len(out) > height-1 {
			out = out[:max(height-1, 0)]
		}
		out = append(out, Line{v.help(), dim})
	}
	if width > 0 {
		for i := range out {
			out[i].Text = cut(out[i].Text, width)
		}
	}
	return out
}

// failure says why nothing new is known, and since when.
func (v *View) failure() (lines []Line) {
	if v.Failure == nil {
		return nil
	}
	lines = append(lines, Line{printable(v.Failure.Error()) + "; trying again", red})
	if v.now != nil {
		lines = append(lines, Line{fmt.Sprintf("No link to the gate: last seen %s, %.0f s ago", v.now.At.Format(time.TimeOnly), v.Silence.Seconds()), red})
	}
	return lines
}

// help is the last line.
func (v *View) help() string {
	order := v.Order.name
	if v.turned {
		order += ", turned"
	}
	state := ""
	if v.paused {
		state = "PAUSED  "
	}
	return state + "q quit  p pause  by " + order + "  |  " + Keys()
}

// seconds is the time between the two readings, 0 when there is only one.
func (v *View) seconds() float64 {
	if v.before == nil || v.now.UptimeSeconds < v.before.UptimeSeconds {
		return 0
	}
	return v.now.UptimeSeconds - v.before.UptimeSeconds
}

// summary renders the daemon and a line per ingress.
func (v *View) summary() []Line {
	s := v.now
	state, style := "serving", bold
	if s.Draining {
		state, style = "DRAINING", red
	}
	clock := "clock trusted"
	if !s.Clock.Trusted {
		clock, style = "CLOCK NOT TRUSTED ("+printable(s.Clock.Detail)+")", yellow
	}
	config := "config in force"
	if !s.Config.LastSuccessful {
		config, style = "LAST RELOAD REFUSED", yellow
	}
	up := time.Duration(s.UptimeSeconds) * time.Second
	out := []Line{{fmt.Sprintf("admitd %s  up %v  %s, %s, %s  %s", printable(s.Version), up, state, clock, config, s.At.Format(time.TimeOnly)), style}}
	for i := range s.Ingresses {
		in := &s.Ingresses[i]
		style := styleOf(in.Verdict.Level)
		out = append(out, Line{v.ingressLine(in), style})
		if in.Verdict.Text != "" && v.Failure == nil { // else it is not of the present
			out = append(out, Line{"  " + printable(in.Verdict.Text), style})
		}
	}
	return out
}

// ingressLine renders one ingress.
func (v *View) ingressLine(in *status.Ingress) string {
	var old *status.Counts
	if v.before != nil {
		for i := range v.before.Ingresses {
			if v.before.Ingresses[i].Name == in.Name {
				old = &v.before.Ingresses[i].Counts
			}
		}
	}
	r := since(&in.Counts, old, v.seconds())
	l := fmt.Sprintf("%-16s %s %s  admitted %s/s  rejected %s/s", printable(in.Name), in.Protocol, in.Mode, short(r.admitted), short(r.rejected))
	if r.rejected > 0 {
		l += fmt.Sprintf(" (%.0f %%, %s)", 100*r.rejected/r.received, words(r.reason))
	}
	if r.failed > 0 {
		l += fmt.Sprintf("  FAILED %s/s", short(r.failed))
	}
	l += fmt.Sprintf("  in flight %d", in.InFlight)
	if in.Queued > 0 {
		l += fmt.Sprintf("  queued %d", in.Queued)
	}
	if in.Requests != nil {
		l += fmt.Sprintf("  tokens %s of %s", short(in.Requests.Tokens), short(in.Requests.Burst))
	}
	if in.Connections != nil {
		l += fmt.Sprintf("  connections %d", in.Connections.Open)
	}
	if in.Fallback {
		l += "  FALLBACK"
	}
	return l
}

// rows returns every partition that has ever been asked for, in order.
func (v *View) rows() []row {
	old := map[[2]string]*status.Counts{}
	if v.before != nil {
		for i := range v.before.Ingresses {
			in := &v.before.Ingresses[i]
			for j := range in.Partitions {
				old[[2]string{in.Name, in.Partitions[j].Name}] = &in.Partitions[j].Counts
			}
		}
	}
	var rows []row
	for i := range v.now.Ingresses {
		in := &v.now.Ingresses[i]
		for j := range in.Partitions {
			p := &in.Partitions[j]
			before := old[[2]string{in.Name, p.Name}]
			if before == nil && v.before != nil {
				before = &status.Counts{} // new since then
			}
			rows = append(rows, row{ingress: in.Name, rates: since(&p.Counts, before, v.seconds()), Partition: p})
		}
	}
	compare := v.Order.compare
	if compare == nil {
		compare = orders()[0].compare
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		c := compare(&a, &b)
		if v.turned {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(b.Counts.Received, a.Counts.Received), cmp.Compare(a.Name, b.Name), cmp.Compare(a.ingress, b.ingress))
	})
	return rows
}

// table renders the rows that fit into room lines; room < 0 = all.
func (v *View) table(width, room int) []Line {
	rows := v.rows()
	if room >= 0 {
		v.page = room
		v.first = max(min(v.first, len(rows)-room), 0)
		rows = rows[v.first:min(v.first+room, len(rows))]
	}
	out := make([]Line, 0, len(rows))
	for i := range rows {
		style := ""
		switch r := &rows[i]; {
		case r.failed > 0:
			style = red
		case r.rejected > 0:
			style = yellow
		}
		out = append(out, Line{v.line(width, &rows[i]), style})
	}
	return out
}

// short renders a number in at most 7 characters.
func short(f float64) string {
	switch {
	case f >= 1e9 || f <= -1e9:
		return fmt.Sprintf("%.1fG", f/1e9)
	case f >= 1e6 || f <= -1e6:
		return fmt.Sprintf("%.1fM", f/1e6)
	case f >= 1e4 || f <= -1e4:
		return fmt.Sprintf("%.1fk", f/1e3)
	case f > 0 && f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// milliseconds renders a latency, "-" when it is unknown.
func milliseconds(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2fs", ms/1000)
}

// words renders a reason, "-" when there is none.
func words(reason string) string {
	if reason == "" {
		return "-"
	}
	return printable(strings.ReplaceAll(reason, "_", " "))
}

// printable replaces what a terminal would obey: names come from clients.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// fit is printable, cut to n characters with a mark where something is missing.
func fit(s string, n int) string {
	s = printable(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// cut returns the first n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}
