package history

import (
	"fmt"
	"math"
	"time"

	"github.com/admitd/admitd/limiter"
)

const (
	// silentAfter is for how long nothing may be answered until a backend with
	// requests in flight is said to be silent; at least silentTimes what it usually
	// takes, and silentUnknown while that is not known.
	silentAfter   = 2 * time.Second
	silentTimes   = 10
	silentUnknown = 10 * time.Second

	// A backend of HTTP fails when this share of its answers are 5xx, or failsRisen of
	// them and failsTimes the usual share. In other protocols an error is often the
	// client's fault: there errorsShare of them must be, or failsShare and errorsTimes
	// the usual share.
	failsShare  = 0.1
	failsRisen  = 0.02
	failsTimes  = 5
	errorsShare = 0.5
	errorsTimes = 3
	// fewErrors is how many errors among the last readings say nothing yet.
	fewErrors = 2

	// tellShare is from which share of the requests on it is the first thing to be
	// told that callers leave, or that their requests are invalid.
	tellShare = 0.1
)

// usually is a figure as it was over the last half hour. The zero value knows
// nothing.
type usualValue struct {
	value float64
	over  time.Duration // for which it was seen
}

// usuallyOver is how far back the figure goes, and usuallyKnown how long it must
// have been seen.
const (
	usuallyOver  = 30 * time.Minute
	usuallyKnown = time.Minute
)

// see takes what the figure was for a time.
func (u *usualValue) see(v float64, d time.Duration) {
	u.over += d
	u.value += (v - u.value) * min(d.Seconds()/min(u.over, usuallyOver).Seconds(), 1)
}

// risen reports whether a share is many times what it usually is.
func (u *usualValue) risen(v, times float64) bool {
	return u.over >= usuallyKnown && v >= times*u.value
}

// watchAnswers notes since when nothing is answered, and which share of the answers
// are errors. It is told of each reading, after the pace was taken.
func (r *record) watchAnswers(seconds float64) {
	n := len(r.window)
	if n < 2 {
		return
	}
	before, last := &r.window[n-2], &r.window[n-1]
	moved := last.ended != before.ended || last.answers.all != before.answers.all || last.failed != before.failed
	switch {
	case moved || r.status.InFlight == 0:
		r.quiet, r.quietAt = time.Time{}, totals{}
	case r.quiet.IsZero():
		r.quiet, r.quietAt = before.at, *before
		for i := range r.window[:n-1] {
			r.quietAt.inFlight = min(r.quietAt.inFlight, r.window[i].inFlight)
		}
	}
	if all := last.answers.all - min(before.answers.all, last.answers.all); all > 0 && seconds > 0 {
		errors := last.answers.errors - min(before.answers.errors, last.answers.errors)
		r.errors.see(float64(errors)/float64(all), time.Duration(min(seconds, stale.Seconds())*float64(time.Second)))
	}
	if r.pace.rtt > 0 {
		r.took = r.pace.rtt
	}
}

// silent words a backend that has requests and answers none of them.
func (r *record) silent(now time.Time) (v Verdict, found bool) {
	if r.quiet.IsZero() || r.status.Mode == limiter.Off && r.took == 0 {
		return v, false
	}
	p, last := &r.pace, &r.window[len(r.window)-1]
	usual := max(p.usual, p.base, r.took)
	patience := max(silentAfter, silentTimes*usual)
	if usual == 0 {
		patience = silentUnknown
	}
	lasted := now.Sub(r.quiet)
	if lasted < patience || last.received == r.quietAt.received && r.status.InFlight <= r.quietAt.inFlight {
		return v, false // what is held may be idle: streams, transactions
	}
	text := fmt.Sprintf("The backend does not answer: %d in flight, and none was answered for %s", r.status.InFlight, age(lasted))
	if usual > 0 {
		text += fmt.Sprintf("; usually it takes %s", millis(nonZero(p.reference(), usual)))
	}
	return BackendSilent.verdict("%s.%s", text, r.alsoRefused()), true
}

// nonZero returns v, or other where v is zero.
func nonZero(v, other time.Duration) time.Duration {
	if v == 0 {
		return other
	}
	return v
}

// alsoRefused is a sentence about what is refused besides; "" = nothing is.
func (r *record) alsoRefused() string {
	if r.pace.refused <= least {
		return ""
	}
	return fmt.Sprintf(" %s/s are refused: %s.", number(r.pace.refused), r.limitName())
}

// erring words a backend that answers with errors.
func (r *record) erring() (v Verdict, found bool) {
	p := &r.pace
	first, last := &r.window[0], &r.window[len(r.window)-1]
	if p.answered <= least || last.answers.errors-min(first.answers.errors, last.answers.errors) < fewErrors {
		return v, false
	}
	share := p.errors / p.answered
	if last.answers.status {
		if share < failsShare && (share < failsRisen || !r.errors.risen(share, failsTimes)) {
			return v, false
		}
		return BackendErrors.verdict("The backend answers %s of %s/s with a status of 5xx.%s%s", percent(share), number(p.answered), r.alsoRefused(), sentence(p.backend())), true
	}
	if share < errorsShare && (share < failsShare || !r.errors.risen(share, errorsTimes)) {
		return v, false
	}
	return BackendErrors.verdict("The backend answers %s of %s/s with errors.%s%s", percent(share), number(p.answered), r.alsoRefused(), sentence(p.backend())), true
}

// sentence puts a space before a sentence.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}

// invalidWords say what is wrong with requests that are answered with a status.
var invalidWords = map[int]string{ //nolint:gochecknoglobals // a table
	400: "malformed", 408: "too slow", 413: "body too large", 421: "for another host", 431: "header too large", 501: "not supported", 505: "not supported",
}

// invalid words the requests that cannot be forwarded; "" = there are few. first says
// that it is what is to be told first.
func (p *pace) invalidNote() (text string, first bool) {
	if p.invalid <= least {
		return "", false
	}
	share, status := p.invalid/(p.received+p.invalid), "an error"
	if p.status > 0 {
		status = fmt.Sprint(p.status)
	}
	if words := invalidWords[p.status]; words != "" {
		status += ", " + words
	}
	return fmt.Sprintf("%s of %s/s are invalid, and answered by the gate (%s).", percent(share), number(p.received+p.invalid), status), share >= tellShare
}

// leftNote words the callers that leave; "" = there are few. first says that it is
// what is to be told first.
func (p *pace) leftNote() (text string, first bool) {
	share := p.left / max(p.received, p.left)
	if p.left <= least || math.IsNaN(share) || share < 0.01 {
		return "", false
	}
	return fmt.Sprintf("%s of %s/s leave before they are answered.", percent(share), number(max(p.received, p.left))), share >= tellShare && p.left > p.refused
}

// retryMuch is the share of retries from which on they are told of, and retryMost that from
// which on they are told of first.
const (
	retryMuch = 0.1
	retryMost = 0.4
)

// retryNote words the requests that are retries, as their clients say; "" = there are few.
// first says that it is what is to be told first: there are many, and not everything is
// served.
func (r *record) retryNote() (text string, first bool) {
	p := &r.pace
	share := p.retries / p.attempts
	if p.retries <= least || math.IsNaN(share) || share < retryMuch {
		return "", false
	}
	text = fmt.Sprintf("%s of %s/s are retries, as their callers say: without them it would be %s/s.", percent(share), number(p.attempts), number(p.attempts-p.retries))
	return text, share >= retryMost && p.attempts >= 1 && p.attempts >= p.received/2 && p.refused > least
}

// fleetClosed is what a gate goes by that refuses what is shared while its group is away.
const fleetClosed = "closed"

// judgeProcess words what keeps clients out whatever the backend does.
func (r *record) judgeProcess(now time.Time) (v Verdict, found bool) {
	p := &r.pace
	switch {
	case !r.expires.IsZero() && !now.Before(r.expires):
		fails := ""
		if p.strangers > least {
			fails = fmt.Sprintf(" %s TLS handshakes/s fail.", number(p.strangers))
		}
		return Expired.verdict("The certificate of this listener expired %s ago.%s%s", age(now.Sub(r.expires)), fails, r.alsoAdmitted()), true
	case p.scarce > least:
		return NoDescriptors.verdict("No file descriptors are left: %s/s are turned away, clients or their requests.%s", number(p.scarce), r.alsoAdmitted()), true
	}
	return v, false
}

// alsoAdmitted is a sentence about what is admitted besides; "" = nothing is.
func (r *record) alsoAdmitted() string {
	if r.pace.admitted <= least {
		return ""
	}
	return fmt.Sprintf(" %s/s are admitted.", number(r.pace.admitted))
}

// delayMuch is from which delay on the gate is short of processor, if that is much of what
// requests take.
const delayMuch = 10 * time.Millisecond

// delayNote says that the gate itself waits for a processor; "" = it does not, or not for
// long.
func (r *record) delayNote() string {
	d := r.process.Delay
	if d < delayMuch || r.pace.rtt > 0 && d < r.pace.rtt/4 {
		return ""
	}
	text := fmt.Sprintf("This gate is short of processor: work that is ready waits up to %s for one.", millis(d))
	if r.pace.rtt > 0 {
		text += fmt.Sprintf(" That is in the %s that the backend seems to take.", millis(r.pace.rtt))
	}
	return text
}
