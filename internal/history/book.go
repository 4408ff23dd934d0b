package history

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

const (
	// paceOver is over how many readings rates are taken: over one alone they
	// would flutter.
	paceOver = 3
	// stale is how old the last reading may be to say anything of the present.
	stale = 5 * time.Second
	// smooth is the weight of the newest second in a partition's rates.
	smooth = 0.35
)

// Reading is one ingress at one moment.
type Reading struct {
	Name       string
	Gate       limiter.Status          // its sums; partitions of clients' keys may be left out
	Partitions iter.Seq[limiter.Brief] // nil = none
	Backends   []ingress.BackendStatus
	Ungated    int64 // open connections of which nothing is admitted
	// Connections are those of its clients, with what was answered; nil = not counted.
	Connections *ingress.Status
	// Source tells where a setting was written, such as admitd.yaml:9: "total",
	// "requests.rate", or the "rate" of a partition; "" = it cannot be told, or it
	// is a default. nil = it never can.
	Source func(setting, partition string) string
	// Recall returns what was learned of a partition in an earlier life of the
	// process; nil = nothing was.
	Recall func(partition string, key bool) (Baseline, bool)
	// Pinned words the override that sets the limit of a partition, who set it, when and
	// until when, beginning with "override"; "" = there is none. nil = there never is.
	Pinned func(partition string, key bool) string
	// Elsewhere words the shared rates of a partition that are in force by the file of
	// another gate, which differs from this gate's; "" = there are none. nil = there never are.
	Elsewhere func(partition string, key bool) string
	Latencies Latencies // of what succeeded since the start; nil = not counted
	Own       Latencies // what the gate itself took of requests; nil = not counted
}

// Book keeps what was read. The zero value is empty and ready. It is safe for
// concurrent use.
type Book struct {
	mu        sync.Mutex // guards the fields below
	ingresses map[string]*record
	marks     []Mark
	process   Process
}

// Process is what is true of the process, for every ingress.
type Process struct {
	// Delay is for how long work that is ready waits for a processor, at the 99th
	// percentile; 0 = unknown.
	Delay time.Duration
	Fleet string // what the gate goes by in its group, such as "closed"; "" = there is none
}

// About takes what is true of the process now.
func (b *Book) About(p Process) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process = p
}

// record is one ingress.
type record struct {
	at        time.Time // of the last reading
	status    limiter.Status
	backends  []ingress.BackendStatus
	expires   time.Time // of the listener's certificate; zero = there is none
	fellBack  bool      // the clock was not trusted at the reading before
	ungated   int64
	process   Process
	quiet     time.Time     // since when permits are held and nothing is answered; zero = something is
	quietAt   totals        // of then
	took      time.Duration // mean latency when something was answered last; 0 = nothing was
	errors    usualValue    // share of the backend's answers that are errors
	recall    func(partition string, key bool) (Baseline, bool)
	source    func(setting, partition string) string
	pinned    func(partition string, key bool) string
	elsewhere func(partition string, key bool) string
	window    []totals // the last readings, the oldest first
	pace      pace
	latencies latencies
	own       latencies
	roll      partitionTable
	series    Series
	moved     map[[2]string]uint64 // times that limits moved, by label and why
	histories int                  // partitions with changes
}

// totals are the counts of one reading.
type totals struct {
	at                                 time.Time
	received, admitted, refused, would uint64
	failed, succeeded                  uint64
	left                               uint64 // callers, before they were answered
	ended                              uint64 // permits
	inFlight                           int
	answers                            answers
	attempts, retries                  uint64 // of the requests that say which attempt they are
	strangers                          uint64 // TLS handshakes that failed
	scarce                             uint64 // clients and backends for which no descriptor was left
	busy, waited                       time.Duration
	byCause                            map[limiter.Cause]uint64
}

// answers count what was answered.
type answers struct {
	all, errors uint64         // by the backend
	status      bool           // the errors are statuses of HTTP
	invalid     map[int]uint64 // by the gate itself, by status; 0 = any other
}

// pace is what happens per second.
type pace struct {
	received, admitted, refused, would, failed float64
	left, ended, answered, errors, invalid     float64
	strangers, scarce                          float64
	attempts, retries                          float64       // of those that say which attempt they are
	rtt, base, usual, wait                     time.Duration // 0 = unknown; usual = the base of calm days
	status                                     int           // with which the gate answers most of what is invalid
	cause                                      limiter.Cause // of most refusals
	limit                                      int           // over the partitions that were asked, bounded by the total
}

// Take adds what was read now. Ingresses that are not among all are forgotten.
func (b *Book) Take(now time.Time, all []Reading) {
	b.mu.Lock()
	defer b.mu.Unlock()
	next := make(map[string]*record, len(all))
	for i := range all {
		r := b.ingresses[all[i].Name]
		if r == nil {
			r = &record{}
		}
		r.process = b.process
		r.take(now, &all[i])
		next[all[i].Name] = r
	}
	b.ingresses = next
}

// Verdict says how an ingress is as of now. Without two readings of late it says
// that it cannot tell.
func (b *Book) Verdict(name string, now time.Time) Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	switch {
	case r == nil || len(r.window) < 2:
		return Measuring.verdict("Measuring…")
	case now.Sub(r.at) > stale:
		return Measuring.verdict("Measuring… Last seen %s, %s ago.", r.at.Format(time.TimeOnly), age(now.Sub(r.at)))
	}
	v := r.judge(now)
	if r.status.Fallback {
		v.Text += " The clock cannot be trusted: adaptive limits are fixed."
	}
	switch r.ungated {
	case 0:
	case 1:
		v.Text += " 1 connection is encrypted between client and backend: nothing of it is admitted."
	default:
		v.Text += fmt.Sprintf(" %d connections are encrypted between client and backend: nothing of them is admitted.", r.ungated)
	}
	return v
}

// take adds one reading.
func (r *record) take(now time.Time, in *Reading) {
	seconds := now.Sub(r.at).Seconds()
	r.fellBack = r.status.Fallback
	r.at, r.status, r.backends, r.recall = now, in.Gate, in.Backends, in.Recall
	r.expires = time.Time{}
	if in.Connections != nil {
		r.expires = in.Connections.Certificate
	}
	r.source, r.pinned, r.elsewhere, r.ungated = in.Source, in.Pinned, in.Elsewhere, in.Ungated
	t := newTotals(now, in)
	if n := len(r.window); n > 0 && (t.received < r.window[n-1].received || seconds > stale.Seconds()) {
		r.window, r.roll, r.histories, r.latencies = nil, partitionTable{}, 0, latencies{} // another gate under its name, or the process slept
		r.quiet = time.Time{}
	}
	r.window = append(r.window, t)
	if len(r.window) > paceOver+1 {
		r.window = append(r.window[:0], r.window[1:]...)
	}
	if in.Partitions != nil {
		r.glance(now, seconds, in.Partitions)
	}
	r.latencies.take(in.Latencies)
	r.own.take(in.Own)
	r.pace = r.paceNow()
	r.watchAnswers(seconds)
	r.remember(now)
}

// newTotals adds the counts of an ingress up.
func newTotals(now time.Time, in *Reading) totals {
	t := totals{at: now, byCause: map[limiter.Cause]uint64{}}
	t.inFlight = in.Gate.InFlight
	for i := range in.Gate.Labels {
		t.add(&in.Gate.Labels[i].Counts, in.Gate.Labels[i].InFlight)
	}
	for i := range in.Backends {
		for _, n := range in.Backends[i].Failures {
			t.failed += n
		}
	}
	t.answers = newAnswers(in.Connections)
	for i := range in.Backends {
		t.scarce += in.Backends[i].Unasked
	}
	if c := in.Connections; c != nil && len(c.Attempts) > int(ingress.AttemptRetry) {
		t.retries = c.Attempts[ingress.AttemptRetry]
		t.attempts = t.retries + c.Attempts[ingress.AttemptFirst]
	}
	if c := in.Connections; c != nil && len(c.Refused) > int(ingress.NoDescriptors) {
		t.strangers = c.Refused[ingress.BadHandshake]
		t.scarce += c.Refused[ingress.NoDescriptors]
	}
	return t
}

// add adds the counts of partitions of which inFlight permits are held.
func (t *totals) add(c *limiter.Counts, inFlight int) {
	t.received += c.Received()
	t.admitted += c.Admitted
	t.busy += c.Busy
	t.waited += c.Waited
	t.succeeded += c.Succeeded(inFlight)
	t.left += c.Abandoned + c.GaveUp
	t.ended += c.Admitted - min(c.Admitted, uint64(max(inFlight, 0)))
	for cause, n := range c.RejectedBy {
		t.byCause[cause] += n
		t.refused += n
	}
	for _, n := range c.WouldReject {
		t.would += n
	}
}

// newAnswers adds up what was answered.
func newAnswers(c *ingress.Status) (a answers) {
	if c == nil {
		return a
	}
	for _, class := range ingress.Responses() {
		if int(class) >= len(c.Responses) {
			break
		}
		n := c.Responses[class]
		a.all += n
		if class.Failed() {
			a.errors += n
			a.status = a.status || class == ingress.Response5xx && n > 0
		}
	}
	for _, i := range c.Invalid {
		if a.invalid == nil {
			a.invalid = map[int]uint64{}
		}
		a.invalid[i.Status] = i.Count
	}
	return a
}

// paceNow takes the rates between the first and the last reading of the window.
func (r *record) paceNow() pace { return r.paceFrom(0) }

// paceSince takes the rates since a moment, as far as the window has readings
// that are younger.
func (r *record) paceSince(t time.Time) pace {
	n := slices.IndexFunc(r.window, func(at totals) bool { return !at.at.Before(t) })
	if latest := max(len(r.window)-2, 0); n < 0 || n > latest {
		n = latest
	}
	return r.paceFrom(n)
}

func (r *record) paceFrom(n int) (p pace) {
	first, last := &r.window[n], &r.window[len(r.window)-1]
	seconds := last.at.Sub(first.at).Seconds()
	p.limit, p.base, p.usual = r.overAll()
	if seconds <= 0 {
		return p
	}
	per := func(from, to uint64) float64 { return float64(to-min(from, to)) / seconds }
	p.received, p.admitted = per(first.received, last.received), per(first.admitted, last.admitted)
	p.refused, p.would, p.failed = per(first.refused, last.refused), per(first.would, last.would), per(first.failed, last.failed)
	p.strangers, p.scarce = per(first.strangers, last.strangers), per(first.scarce, last.scarce)
	p.attempts, p.retries = per(first.attempts, last.attempts), per(first.retries, last.retries)
	p.left, p.ended = per(first.left, last.left), per(first.ended, last.ended)
	p.answered, p.errors = per(first.answers.all, last.answers.all), per(first.answers.errors, last.answers.errors)
	worst := 0.0
	for status, n := range last.answers.invalid {
		rate := per(first.answers.invalid[status], n)
		if p.invalid += rate; rate > worst || rate == worst && status < p.status {
			worst, p.status = rate, status
		}
	}
	if n := last.succeeded - min(first.succeeded, last.succeeded); n > 0 && last.busy > first.busy {
		p.rtt = (last.busy - first.busy) / time.Duration(n)
	}
	if n := last.admitted - min(first.admitted, last.admitted); n > 0 {
		p.wait = max(last.waited-first.waited, 0) / time.Duration(n)
	}
	var most uint64
	for _, cause := range limiter.Causes() {
		if n := last.byCause[cause] - min(first.byCause[cause], last.byCause[cause]); n > most {
			most, p.cause = n, cause
		}
	}
	return p
}

// Bad returns what makes callers fail as of now, one line for each ingress where
// something does, by name.
func (b *Book) Bad(now time.Time) (lines []string) {
	for _, name := range b.Names() {
		if v := b.Verdict(name, now); v.Level == LevelBad {
			lines = append(lines, name+": "+v.Text)
		}
	}
	return lines
}

// Names returns the ingresses that were read last, in order.
func (b *Book) Names() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Sorted(maps.Keys(b.ingresses))
}
