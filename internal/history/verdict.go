package history

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Level says how bad a condition is. The set is closed.
type Level string

// The levels, with the colours in which they are shown.
const (
	// LevelNone: there is nothing to judge. No colour.
	LevelNone Level = ""
	// LevelOK: everything is as it should be. Green.
	LevelOK Level = "ok"
	// LevelWarn: callers are refused because the configuration says so, or soon
	// may be. Amber.
	LevelWarn Level = "warn"
	// LevelBad: callers fail, and nobody wants them to. Red.
	LevelBad Level = "bad"
)

// Condition is how an ingress is, in one word. The set is closed.
type Condition string

// The conditions, the one that is told first on top.
const (
	Measuring     Condition = "measuring"           // too little was seen to say anything
	Expired       Condition = "certificate_expired" // the listener's, so that clients stay away
	NoDescriptors Condition = "no_descriptors"      // the process has none left
	BackendDown   Condition = "backend_down"        // no backend answers anything
	BackendsDown  Condition = "backends_down"       // some of several do not
	BackendSilent Condition = "backend_silent"      // requests are in flight, and none is answered
	BackendFails  Condition = "backend_fails"       // some requests get no answer
	BackendErrors Condition = "backend_errors"      // many of its answers are errors
	Draining      Condition = "draining"            // nothing new is admitted
	FleetClosed   Condition = "fleet_closed"        // the group is away, and what is shared is refused
	RetryStorm    Condition = "retry_storm"         // much of what is asked was refused before
	CallersLeave  Condition = "callers_leave"       // many of them before they are answered
	Refusing      Condition = "refusing"            // some requests are refused
	Invalid       Condition = "invalid"             // many requests are not such as could be forwarded
	WouldRefuse   Condition = "would_refuse"        // shadow mode lets pass what it would refuse
	Idle          Condition = "idle"                // nobody asks
	GateDelayed   Condition = "gate_delayed"        // the process lacks a processor
	BackendIsSlow Condition = "backend_slow"        // it answers everything, and late
	Admitting     Condition = "admitting"           // everything is admitted, and answered
)

// levels is the one table of how bad each condition is, and of what is told to
// those who only want to hear of changes.
var levels = []struct { //nolint:gochecknoglobals // a table
	is    Condition
	level Level
	told  string
}{
	{Measuring, LevelNone, "Measuring"},
	{Expired, LevelBad, "The certificate has expired"},
	{NoDescriptors, LevelBad, "No file descriptors are left"},
	{BackendDown, LevelBad, "The backend answers nothing"},
	{BackendSilent, LevelBad, "The backend does not answer"},
	{BackendsDown, LevelBad, "Some backends answer nothing"},
	{BackendFails, LevelBad, "Requests fail at the backend"},
	{BackendErrors, LevelBad, "The backend answers with errors"},
	{Draining, LevelWarn, "Draining"},
	{FleetClosed, LevelBad, "The group does not answer, and the fallback is closed"},
	{RetryStorm, LevelWarn, "Much of what is asked are retries"},
	{CallersLeave, LevelWarn, "Callers leave before they are answered"},
	{Refusing, LevelWarn, "Requests are refused"},
	{WouldRefuse, LevelWarn, "Shadow mode: some would be refused"},
	{Invalid, LevelWarn, "Many requests are invalid"},
	{Idle, LevelNone, "No traffic at the moment"},
	{GateDelayed, LevelWarn, "The gate is short of processor"},
	{BackendIsSlow, LevelWarn, "The backend is slow"},
	{Admitting, LevelOK, "Everything is admitted"},
}

// Conditions returns every condition, the one that is told first on top.
func Conditions() []Condition {
	out := make([]Condition, len(levels))
	for i := range levels {
		out[i] = levels[i].is
	}
	return out
}

// Level returns how bad the condition is.
func (c Condition) Level() Level {
	for i := range levels {
		if levels[i].is == c {
			return levels[i].level
		}
	}
	return LevelNone
}

// Verdict says how an ingress is.
type Verdict struct {
	Condition Condition
	Level     Level
	Text      string // a sentence or two
	Told      string // the same without figures: it changes only when the condition does
}

// slowBy is how many times the latency without load a backend may take before it
// is called slow.
const slowBy = 3

// least is the rate, per second, below which nothing happens.
const least = 0.05

// verdict words what the pace of an ingress is.
func (c Condition) verdict(format string, args ...any) Verdict {
	v := Verdict{Condition: c, Level: c.Level(), Text: fmt.Sprintf(format, args...)}
	for i := range levels {
		if levels[i].is == c {
			v.Told = levels[i].told
		}
	}
	return v
}

// judge finds the first condition that holds.
func (r *record) judge(now time.Time) Verdict {
	if v, found := r.judgeProcess(now); found {
		return v
	}
	retries, storm := r.retryNote()
	if v, dead := r.judgeBackends(now); dead {
		v.Text += sentence(retries)
		return v
	}
	p := &r.pace
	backend := p.backend()
	left, leaving := p.leftNote()
	invalid, invalidFirst := p.invalidNote()
	delayed := r.delayNote()
	notes := sentence(left) + sentence(invalid) + sentence(retries)
	if delayed != "" { // else the backend would be blamed
		backend = delayed
	}
	switch {
	case r.status.Draining:
		return Draining.verdict("Draining: nothing new is admitted.")
	case r.process.Fleet == fleetClosed && p.refused > least && p.cause.Limit == labels.ByFleet:
		return FleetClosed.verdict("The group of gates does not answer, and the fallback is closed: %s of %s/s are refused.%s%s",
			percent(p.refused/max(p.received, p.refused)), number(max(p.received, p.refused)), notes, sentence(backend))
	case storm:
		return RetryStorm.verdict("%s%s%s%s%s", retries, r.alsoRefused(), sentence(left), sentence(invalid), sentence(backend))
	case leaving:
		return CallersLeave.verdict("%s%s%s%s", left, r.alsoRefused(), sentence(invalid), sentence(backend))
	case p.refused > least:
		return r.refusing(notes)
	case r.status.Mode == limiter.Shadow && p.would > least:
		return WouldRefuse.verdict("Shadow mode: would refuse %s of %s/s.%s", percent(p.would/max(p.received, p.would)), number(max(p.received, p.would)), sentence(backend))
	case invalidFirst:
		return Invalid.verdict("%s%s%s%s", invalid, r.alsoAdmitted(), sentence(left), sentence(backend))
	case p.received <= least && p.admitted <= least:
		if n := r.status.InFlight; n > 0 {
			return Idle.verdict("No new requests at the moment, %d in flight.", n)
		}
		return Idle.verdict("No traffic at the moment.")
	}
	text := fmt.Sprintf("Everything is admitted: %s/s.%s%s%s", number(p.admitted), modeNote(r.status.Mode), notes, sentence(backend))
	if delayed != "" {
		return GateDelayed.verdict("%s", text)
	}
	if p.isSlow() {
		return BackendIsSlow.verdict("%s", text)
	}
	return Admitting.verdict("%s", text)
}

// judgeBackends words what makes callers fail.
func (r *record) judgeBackends(now time.Time) (v Verdict, found bool) {
	p := &r.pace
	var down []*ingress.BackendStatus
	asked, cause := 0, ""
	for i := range r.backends {
		b := &r.backends[i]
		switch b.State {
		case ingress.BackendUnknown:
			continue
		case ingress.BackendDown:
			down = append(down, b)
		default:
		}
		asked++
		if b.LastFail.After(now.Add(-failureAge)) {
			cause = b.Cause
		}
	}
	switch {
	case len(down) > 0 && len(down) == asked:
		return r.dead(now, down[0]), true
	}
	if v, found = r.silent(now); found {
		return v, true
	}
	switch {
	case len(down) > 0:
		var names []string
		for _, b := range down {
			names = append(names, fmt.Sprintf("%s (%s, for %s)", b.Address, b.Cause, age(now.Sub(b.Since))))
		}
		return BackendsDown.verdict("%d of %d backends answer nothing: %s.%s", len(down), asked, strings.Join(names, ", "), sentence(p.backend())), true
	case p.failed > least:
		share := ""
		if total := max(p.admitted, p.failed); total > 0 {
			share = fmt.Sprintf("%s of %s/s failed", percent(p.failed/total), number(total))
		}
		return BackendFails.verdict("The backend fails: %s (%s).%s%s", share, cause, r.alsoRefused(), sentence(p.backend())), true
	}
	return r.erring()
}

// failureAge is how old the last failure may be to be the cause of those that
// are counted now.
const failureAge = 10 * time.Second

// dead words a backend that answers nothing.
func (r *record) dead(now time.Time, b *ingress.BackendStatus) Verdict {
	p := r.paceSince(b.Since) // what was answered before did not fail
	since := age(now.Sub(b.Since))
	switch {
	case p.admitted < least && p.refused > least:
		return BackendDown.verdict("Backend answers nothing (%s) for %s. All of %s/s are refused: %s.", b.Cause, since, number(p.refused), r.limitName())
	case p.admitted < least:
		return BackendDown.verdict("Backend answers nothing (%s) for %s; last asked %s ago.", b.Cause, since, age(now.Sub(b.LastFail)))
	case p.refused > least:
		return BackendDown.verdict("Backend answers nothing: 100 %% of %s/s failed (%s) for %s. %s/s more are refused: %s.",
			number(p.admitted), b.Cause, since, number(p.refused), r.limitName())
	}
	return BackendDown.verdict("Backend answers nothing: 100 %% of %s/s failed (%s) for %s.", number(p.admitted), b.Cause, since)
}

// refusing words who is refused, and by what.
func (r *record) refusing(notes string) Verdict {
	p := &r.pace
	whom := ""
	if name, rate := r.most(); rate > least && p.cause.Limit == labels.ByTotal {
		whom = fmt.Sprintf("; most asked for by %s (%s/s refused)", name, number(rate))
	} else if rate > least {
		whom = fmt.Sprintf(", most for %s (%s/s)", name, number(rate))
	}
	v := Refusing.verdict("Refusing %s of %s/s: %s%s.%s", percent(p.refused/max(p.received, p.refused)), number(max(p.received, p.refused)), r.limitName(), whom, notes+sentence(cmp.Or(r.delayNote(), p.backend())))
	v.Told += ": " + strings.ReplaceAll(string(p.cause.Reason), "_", " ")
	return v
}

// modeNote says what a mode other than enforce means.
func modeNote(m limiter.Mode) string {
	switch m {
	case limiter.Off:
		return " The gate is off."
	case limiter.Shadow:
		return " Shadow mode."
	default:
		return ""
	}
}

// reference returns the latency without load that the present one is compared with:
// the one of calm days, which a brown-out does not move, where that is lower.
func (p *pace) reference() time.Duration {
	if p.usual > 0 && p.usual < p.base {
		return p.usual
	}
	return p.base
}

// isSlow reports whether the backend takes much longer than without load.
func (p *pace) isSlow() bool {
	base := p.reference()
	return base > 0 && p.rtt > slowBy*base
}

// backend words how long the backend takes.
func (p *pace) backend() string {
	base := p.reference()
	switch {
	case p.rtt <= 0:
		return ""
	case base <= 0:
		return "Backend at " + millis(p.rtt) + "."
	}
	ratio := p.rtt.Seconds() / base.Seconds()
	switch {
	case ratio < 0.5: // answers that cost nothing
		return fmt.Sprintf("Backend at %s, below its base of %s.", millis(p.rtt), millis(base))
	case p.isSlow():
		return fmt.Sprintf("The backend is slow: %s, %s× its base of %s.", millis(p.rtt), times(ratio), millis(base))
	}
	return fmt.Sprintf("Backend at %s, %.1f× its base.", millis(p.rtt), ratio)
}

// limitName words the limit that refuses most, what it stands at, and where that
// was written.
func (r *record) limitName() string {
	name, _ := r.most()
	said, cause := r.nameOf(r.pace.cause, name), r.pace.cause
	if p := r.roll.most; p != nil && cause.Limit == labels.ByPartition && !cause.Reason.ByRate() {
		if pinned := r.pin(&p.last); pinned != "" {
			said += ", set by " + pinned
		}
	}
	return said
}

// nameOf words the limit that refuses a partition for a cause.
func (r *record) nameOf(cause limiter.Cause, partition string) string {
	reason := strings.ReplaceAll(string(cause.Reason), "_", " ")
	switch cause.Limit {
	case labels.ByTotal:
		return fmt.Sprintf("%s, the total of %d %s is used up%s", reason, r.status.Total, plural(r.status.Total, "permit"), r.written("total", ""))
	case labels.ByIngress:
		if b := r.status.Bucket; b != nil && cause.Reason.ByRate() {
			return fmt.Sprintf("%s, the ingress may take %s/s%s", reason, number(b.PerSecond), r.written("requests.rate", ""))
		}
		return reason + " of the ingress"
	case labels.ByPartition:
		if cause.Reason.ByRate() {
			return reason + r.written("rate", partition)
		}
	case labels.ByFleet:
		return reason + ", shared by the gates of the fleet"
	default:
	}
	return reason
}

// written says where a setting was, if that is known.
func (r *record) written(setting, partition string) string {
	if r.source == nil {
		return ""
	}
	if where := r.source(setting, partition); where != "" {
		return " (" + where + ")"
	}
	return ""
}
