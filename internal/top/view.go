package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

	Rows int // listed at most where the height is unbounded, 0 = all

	turned bool // the order is the other way round
	paused bool
	pointer
	at     place
	typing bool   // keys are of the search
	search string // only partitions whose name contains it

	readings
}

// pointer is what of the table is looked at.
type pointer struct {
	first  int    // row on top
	page   int    // rows that fit, of the last drawing
	cursor string // the partition that is pointed at, and its ingress
	where  string
	moved  bool // it was moved since the last drawing
}

// readings are the last two of a daemon.
type readings struct{ now, before *status.Document }

// Take shows a newer reading, unless paused.
func (v *View) Take(s *status.Document) {
	if !v.paused {
		v.before, v.now = v.now, s
	}
}

// Key obeys a key and reports whether it quits.
func (v *View) Key(key string) (quit bool) {
	if v.typing {
		return v.typed(key)
	}
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
	case "/":
		v.typing, v.at = true, atTable
	case "o":
		v.toggle(atTopKeys)
	case "\r", "\n":
		v.toggle(atDetail)
	case "\x7f", "\b": // back, and then all
		if v.at == atTable {
			v.search = ""
		}
		v.at = atTable
	case "\t":
		v.nextIngress()
	default:
		v.move(key)
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
		out = v.summary(width)
	}
	told := len(out)
	out = append(out, v.failure()...)
	rest := len(out)
	if v.now != nil {
		out = append(out, Line{})
		room := -1
		if height > 0 {
			room = max(height-len(out)-2, 1)
		}
		out = append(out, v.body(width, room)...)
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
	switch {
	case v.typing:
		return "search: " + printable(v.search) + "▏  Enter keeps it, Ctrl-U empties it"
	case v.paused:
		state = "PAUSED  "
	}
	if v.search != "" {
		state += "only *" + printable(v.search) + "*, Backspace for all  "
	}
	return state + "q quit  / search  Enter why  o who asks  Tab ingress  p pause  by " + order + "  |  " + Keys()
}

// overflow shares what the table of keys has no room for, and is not worth a
// row before there is any.
const overflow = "overflow"

// rows returns the partitions that are looked for, in order.
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
	search := strings.ToLower(v.search)
	for i := range v.now.Ingresses {
		in := &v.now.Ingresses[i]
		if v.Ingress != "" && v.Ingress != in.Name {
			continue
		}
		for j := range in.Partitions {
			p := &in.Partitions[j]
			unused := p.Name == overflow && p.Counts.Received == 0
			if unused || !strings.Contains(strings.ToLower(p.Name), search) {
				continue
			}
			before := old[[2]string{in.Name, p.Name}] // none was listed: its rates are not known yet
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
		if v.moved { // what is pointed at is in view
			at := max(slices.IndexFunc(rows, func(r row) bool { return r.Name == v.cursor && r.ingress == v.where }), 0)
			v.first, v.moved = max(min(v.first, at), at-room+1), false
		}
		v.first = max(min(v.first, len(rows)-room), 0)
		rows = rows[v.first:min(v.first+room, len(rows))]
	}
	more := 0
	if room < 0 && v.Rows > 0 && len(rows) > v.Rows {
		more, rows = len(rows)-v.Rows, rows[:v.Rows]
	}
	out := make([]Line, 0, len(rows)+1)
	for i := range rows {
		style := ""
		switch r := &rows[i]; {
		case r.failed > 0:
			style = red
		case r.rejected > 0:
			style = yellow
		}
		if r := &rows[i]; v.cursor != "" && r.Name == v.cursor && r.ingress == v.where {
			style = strings.TrimPrefix(style+";"+reverse, ";")
		}
		out = append(out, Line{v.line(width, &rows[i]), style})
	}
	if more > 0 {
		out = append(out, Line{fmt.Sprintf("and %d more: --rows 0 lists all", more), dim})
	}
	return out
}
