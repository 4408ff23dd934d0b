package top

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/admitd/admitd/status"
)

// place is what is looked at below the summary.
type place int

// The places.
const (
	atTable   place = iota // all partitions
	atDetail               // the partition that is pointed at
	atTopKeys              // who makes the load
)

// toggle goes to a place, or back from it.
func (v *View) toggle(to place) {
	if v.at == to {
		to = atTable
	}
	v.at = to
}

// body renders what is looked at, in at most room lines and a heading; room < 0 =
// unbounded.
func (v *View) body(width, room int) []Line {
	var out []Line
	switch v.at {
	case atTopKeys:
		out = v.topKeys()
	case atDetail:
		out = v.detail(width)
	default:
		return append([]Line{{v.line(width, nil), reverse}}, v.table(width, room)...)
	}
	if room >= 0 && len(out) > room+1 {
		out = out[:room+1]
	}
	return out
}

// typed takes a key of the search.
func (v *View) typed(key string) (quit bool) {
	switch {
	case key == "\x03" || key == "\x04":
		return true
	case key == "\r" || key == "\n" || key == "\x1b":
		v.typing = false
	case key == "\x7f" || key == "\b":
		_, n := utf8.DecodeLastRuneInString(v.search)
		v.search = v.search[:len(v.search)-n]
	case key == "\x15": // Ctrl-U
		v.search = ""
	case key >= " " && !strings.HasPrefix(key, "\x1b") && len(v.search) < 100:
		v.search += key
	}
	v.first = 0
	return false
}

// Search returns what is searched, in the names of partitions; "" = nothing.
func (v *View) Search() string { return v.search }

// nextIngress shows only the next ingress, and after the last all of them.
func (v *View) nextIngress() {
	if v.now == nil || len(v.now.Ingresses) < 2 {
		return
	}
	all := v.now.Ingresses
	next := slices.IndexFunc(all, func(in status.Ingress) bool { return in.Name == v.Ingress }) + 1
	v.Ingress, v.first = "", 0
	if next < len(all) {
		v.Ingress = all[next].Name
	}
}

// move points at another partition and keeps it in view.
func (v *View) move(key string) {
	steps := map[string]int{
		"\x1b[A": -1, "k": -1, "\x1b[B": 1, "j": 1, "\x1b[5~": -v.page, "\x1b[6~": v.page,
		"\x1b[H": -1 << 30, "\x1b[1~": -1 << 30, "\x1b[F": 1 << 30, "\x1b[4~": 1 << 30,
	}
	step, ok := steps[key]
	if !ok || v.now == nil {
		return
	}
	rows := v.rows()
	if len(rows) == 0 {
		return
	}
	at := slices.IndexFunc(rows, func(r row) bool { return r.Name == v.cursor && r.ingress == v.where })
	at = max(min(at+step, len(rows)-1), 0)
	v.cursor, v.where, v.moved = rows[at].Name, rows[at].ingress, true
}

// detail says everything about the partition that is pointed at, or about the
// first one.
func (v *View) detail(width int) []Line {
	rows := v.rows()
	if len(rows) == 0 {
		return []Line{{"no partition", dim}}
	}
	r := &rows[max(slices.IndexFunc(rows, func(r row) bool { return r.Name == v.cursor && r.ingress == v.where }), 0)]
	out := []Line{{printable(r.ingress) + " / " + printable(r.Name), bold}}
	for _, l := range wrap(printable(r.Explain), width) {
		out = append(out, Line{l, ""})
	}
	out = append(out, Line{},
		Line{fmt.Sprintf("  now        received %s/s  admitted %s/s  refused %s/s  failed %s/s", short(r.received), short(r.admitted), short(r.rejected), short(r.failed)), ""},
		Line{fmt.Sprintf("  limit      %d in flight of %d, %d queued, by %s", r.InFlight, r.Limit, r.Queued, r.algorithm()), ""},
		Line{fmt.Sprintf("  latency    mean %s, without load %s", milliseconds(r.rtt), milliseconds(r.BaseRTTMS)), ""},
		Line{fmt.Sprintf("  so far     received %d, admitted %d, failed %d, gave up %d, left while the backend worked %d", r.Counts.Received, r.Counts.Admitted, r.Counts.Failed, r.Counts.GaveUp, r.Counts.Abandoned), ""})
	for _, reason := range slices.Sorted(maps.Keys(r.Counts.Rejected)) {
		out = append(out, Line{fmt.Sprintf("  refused    %d, %s", r.Counts.Rejected[reason], printable(reason.Words())), yellow})
	}
	if b := r.Requests; b != nil {
		out = append(out, Line{fmt.Sprintf("  bucket     %s of %s tokens, %s/s", short(b.Tokens), short(b.Burst), short(b.Rate)), ""})
	}
	return append(out, Line{}, Line{"  admitd set " + quote(r.ingress) + " " + quote(r.Name) + fmt.Sprintf(" limit=%d --for 30m     raises it; rate=none blocks it", 2*r.Limit), dim})
}

// askers says who makes the load of each ingress.
func (v *View) topKeys() []Line {
	out := []Line{{fmt.Sprintf("%-12s %-12s %10s %10s  WHO", "INGRESS", "KIND", "RECEIVED/s", "REFUSED/s"), reverse}}
	for i := range v.now.Ingresses {
		in := &v.now.Ingresses[i]
		if v.Ingress != "" && v.Ingress != in.Name {
			continue
		}
		for _, kind := range slices.Sorted(maps.Keys(in.Top)) {
			for _, a := range in.Top[kind] {
				style := ""
				if a.Refused > 0 {
					style = yellow
				}
				out = append(out, Line{fmt.Sprintf("%s %s %10s %10s  %s", padded(in.Name, 12), padded(kind, 12), short(a.Received), short(a.Refused), printable(a.Name)), style})
			}
		}
	}
	if len(out) == 1 {
		out = append(out, Line{"nobody asks, or this daemon does not tell", dim})
	}
	return out
}

// wrap breaks a text at spaces to lines of width characters, 0 = unbounded.
func wrap(text string, width int) (lines []string) {
	line := " "
	for word := range strings.FieldsSeq(text) {
		if width > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && line != " " {
			lines, line = append(lines, line), " "
		}
		line += " " + word
	}
	if line == " " {
		return lines
	}
	return append(lines, line)
}

// quote words a name for a shell: clients choose names.
func quote(name string) string {
	name = printable(name)
	if name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:@+,", r)
	}) {
		return name
	}
	return "'" + strings.ReplaceAll(name, "'", `'\''`) + "'"
}
