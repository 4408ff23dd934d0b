package top

import (
	"fmt"
	"strings"
	"time"

	"github.com/admitd/admitd/status"
)

// seconds is the time between the two readings, 0 when there is only one.
func (r *readings) seconds() float64 {
	if r.before == nil || r.now.UptimeSeconds < r.before.UptimeSeconds {
		return 0
	}
	return r.now.UptimeSeconds - r.before.UptimeSeconds
}

// verdictLines is how many lines a verdict takes at most.
const verdictLines = 4

// summary renders the daemon and a line per ingress.
func (v *View) summary(width int) []Line {
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
		if v.Ingress != "" && v.Ingress != in.Name {
			continue
		}
		style := styleOf(in.Verdict.Level)
		out = append(out, Line{v.ingressLine(in), style})
		if in.Verdict.Text != "" && v.Failure == nil { // else it is not of the present
			for _, l := range wrapped(printable(in.Verdict.Text), width-2, verdictLines) {
				out = append(out, Line{"  " + l, style})
			}
		}
		if l := v.classesLine(in); l != "" {
			out = append(out, Line{l, ""})
		}
	}
	if f := s.Fleet; f != nil {
		l := Line{fmt.Sprintf("  fleet %s: %d gates, %d shared rates, this gate goes by: %s", printable(f.Group), f.Gates, f.QuotaCount, f.Mode), ""}
		if f.Mode != "leased" {
			l.Text, l.Style = l.Text+"  "+printable(f.Problem), yellow
		}
		out = append(out, l)
		if told := differ(f.Differs); told != "" {
			for _, l := range wrapped(told, width-2, verdictLines) {
				out = append(out, Line{"  " + l, yellow})
			}
		}
	}
	if t := s.Tuner; t != nil {
		out = append(out, tunerLine(t, s.At))
	}
	for i := range s.Shadow {
		c := &s.Shadow[i]
		l := fmt.Sprintf("  candidate %s of %s: would refuse %.0f %% (%.0f %% are), %.0f %% of it for nothing, p99 %s",
			printable(c.Name), printable(c.Ingress), 100*c.RejectedShare, 100*c.EnforcedShare, 100*c.ForNothingShare, milliseconds(c.P99MS))
		if c.Warming {
			l = fmt.Sprintf("  candidate %s of %s: watching the backend, nothing is counted yet", printable(c.Name), printable(c.Ingress))
		}
		out = append(out, Line{l, ""})
	}
	return out
}

// tunerLine says what the tuner did last, and what keeps it.
func tunerLine(t *status.Tuner, now time.Time) Line {
	l := Line{fmt.Sprintf("  tuner %s: %d policies, %d changes, %d taken back", t.Mode, t.Policies, t.Changes, t.Reverts), ""}
	if t.Hold != "" {
		l.Text, l.Style = l.Text+", HOLDS STILL: "+printable(t.Hold), yellow
	}
	if len(t.Held) > 0 {
		l.Text, l.Style = l.Text+", held: "+printable(strings.Join(t.Held, ", ")), yellow
	}
	if len(t.ByHand) > 0 {
		l.Text += ", set by hand: " + printable(strings.Join(t.ByHand, ", "))
	}
	if m := t.Last; m != nil {
		value := func(v *float64) string {
			if v == nil {
				return "no bound"
			}
			return short(*v)
		}
		l.Text += fmt.Sprintf("; %s %v ago: %s %s → %s", m.Kind, now.Sub(m.At).Round(time.Second), printable(m.Setting), value(m.Old), value(m.New))
	}
	return l
}

// classesLine says what becomes of each class per second; "" where there are
// none.
func (v *View) classesLine(in *status.Ingress) string {
	if in.Classes == nil || v.seconds() <= 0 {
		return ""
	}
	old := map[string]status.ClassCount{}
	if before := v.ingressBefore(in.Name); before != nil && before.Classes != nil {
		for _, c := range before.Classes.Counts {
			old[c.Class] = c
		}
	}
	var l strings.Builder
	l.WriteString("  classes")
	for _, c := range in.Classes.Counts {
		o := old[c.Class]
		per := func(now, then uint64) string { return short(float64(now-min(now, then)) / v.seconds()) }
		fmt.Fprintf(&l, "  %s %s/s", printable(c.Class), per(c.Admitted+c.Exempted, o.Admitted+o.Exempted))
		if c.Shed > o.Shed {
			fmt.Fprintf(&l, " (%s/s shed)", per(c.Shed, o.Shed))
		}
	}
	return l.String()
}

// ingressBefore returns an ingress of the reading before, nil when there is none.
func (r *readings) ingressBefore(name string) *status.Ingress {
	if r.before != nil {
		for i := range r.before.Ingresses {
			if r.before.Ingresses[i].Name == name {
				return &r.before.Ingresses[i]
			}
		}
	}
	return nil
}

// ingressLine renders one ingress.
func (v *View) ingressLine(in *status.Ingress) string {
	var old *status.Counts
	if before := v.ingressBefore(in.Name); before != nil {
		old = &before.Counts
	}
	r := since(&in.Counts, old, v.seconds())
	l := fmt.Sprintf("%s %s %s  admitted %s/s  refused %s/s", padded(in.Name, max(16, lengthOf(printable(in.Name)))), in.Protocol, in.Mode, short(r.admitted), short(r.rejected))
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
	if in.P99MS > 0 {
		l += "  p99 " + milliseconds(in.P99MS)
	}
	if in.Connections != nil {
		l += fmt.Sprintf("  connections %d", in.Connections.Open)
	}
	if in.Fallback {
		l += "  FALLBACK"
	}
	return l
}

// maxDiffer is how many rates are named where files of gates differ.
const maxDiffer = 3

// differ words the shared rates that are in force by another gate's file; "" = there are
// none.
func differ(rates []status.FleetRate) string {
	var told []string
	more := 0
	for i := range rates {
		r := &rates[i]
		switch {
		case r.Source != "file": // what was set at run time is meant to differ
		case len(told) == maxDiffer:
			more++
		default:
			told = append(told, fmt.Sprintf("%s is %g/s by the file of gate %s, %g/s by this gate's", printable(r.Name), r.PerSecond, printable(r.By), r.OwnPerSecond))
		}
	}
	if len(told) == 0 {
		return ""
	}
	if more > 0 {
		told = append(told, fmt.Sprintf("and %d more", more))
	}
	return "files of gates differ: " + strings.Join(told, ", ")
}
