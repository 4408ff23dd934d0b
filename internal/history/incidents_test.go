package history_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/testkit/golden"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// incident is what an ingress does in a second of it.
type incident struct {
	name     string
	wire     bool // it speaks another protocol than HTTP
	admitted uint64
	answered uint64 // well
	errors   uint64 // answered with 5xx, or with an error
	refused  uint64
	by       limiter.Cause
	first    uint64 // requests that say they are the first attempt
	retries  uint64 // those that say they are another
	left     uint64 // callers, while the backend works
	invalid  uint64 // requests answered 413
	fails    uint64 // requests that get no answer
	lacks    uint64 // requests for which no descriptor is left
	cause    ingress.Cause
	held     int // permits, by requests that hang
	limit    int
	why      string // of the limit
	expired  bool   // the certificate of the listener
	strange  uint64 // TLS handshakes that fail
	scarce   uint64 // clients for which no descriptor is left
	process  history.Process
	fallback bool   // the clock is not trusted
	pinned   string // the override that is in force
	latency  time.Duration
	base     time.Duration // as the limit believes after a while; 0 = it stays
}

// calmly is a second without an incident.
func calmly() incident {
	return incident{admitted: 200, answered: 200, latency: 22 * time.Millisecond, base: 20 * time.Millisecond, limit: 20, why: "room"}
}

// incidents are those that operators meet.
func incidents() []incident {
	full := limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByPartition}
	rate := limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByPartition}
	return []incident{
		{name: "backend dead", admitted: 200, fails: 200, cause: ingress.Unreachable, limit: 20},
		{name: "backend closes connections", admitted: 200, answered: 150, fails: 50, cause: ingress.HungUp, latency: 22 * time.Millisecond, limit: 20},
		{name: "backend answers 500 at once", admitted: 200, errors: 200, limit: 20},
		{name: "backend answers 503 to a part", admitted: 200, answered: 170, errors: 30, latency: 22 * time.Millisecond, limit: 20},
		{name: "statements fail", wire: true, admitted: 200, answered: 40, errors: 160, latency: 22 * time.Millisecond, limit: 20},
		{name: "backend hangs", admitted: 0, held: 20, refused: 200, by: full, limit: 20},
		{name: "backend hangs, and every caller waits", held: 12, limit: 20},
		{name: "backend five times as slow", admitted: 80, answered: 80, refused: 120, by: full, latency: 190 * time.Millisecond, base: 136 * time.Millisecond, limit: 12, why: "queue"},
		{name: "backend five times as slow, nobody refused", admitted: 200, answered: 200, latency: 110 * time.Millisecond, base: 100 * time.Millisecond, limit: 40, why: "room"},
		{name: "storm of one tenant", admitted: 150, answered: 150, refused: 850, by: rate, latency: 22 * time.Millisecond, limit: 20},
		{name: "retry storm", admitted: 100, answered: 100, refused: 300, by: full, first: 120, retries: 280, latency: 24 * time.Millisecond, limit: 5, why: "queue"},
		{name: "retry storm while the backend answers 503", admitted: 300, errors: 300, first: 100, retries: 200, limit: 20},
		{name: "callers give up", admitted: 228, answered: 226, left: 227, refused: 22, by: full, latency: 138 * time.Millisecond, limit: 20, why: "departures"},
		{name: "uploads too large", admitted: 2, answered: 2, invalid: 20, latency: 22 * time.Millisecond, limit: 20},
		{name: "certificate expired", expired: true, strange: 41, limit: 20},
		{name: "no descriptors left", admitted: 20, answered: 20, scarce: 88, latency: 22 * time.Millisecond, limit: 20},
		{name: "Redis away, fallback closed", refused: 200, by: limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByFleet}, process: history.Process{Fleet: "closed"}, limit: 20},
		{name: "gate without a processor", admitted: 200, answered: 200, latency: 112 * time.Millisecond, process: history.Process{Delay: 90 * time.Millisecond}, limit: 20, why: "room"},
		{name: "no descriptor left for the backend", admitted: 200, answered: 100, lacks: 100, latency: 22 * time.Millisecond, limit: 20},
		{name: "clock not trusted", fallback: true, admitted: 200, answered: 200, latency: 22 * time.Millisecond, limit: 10, why: "room"},
		{name: "a request costs the backend four times as much", admitted: 50, answered: 50, refused: 150, by: limiter.Cause{Reason: labels.QueueTimeout, Limit: labels.ByPartition}, latency: 88 * time.Millisecond, base: 80 * time.Millisecond, limit: 4, why: "queue"},
		{name: "limit pinned by somebody", pinned: "override 7 (limit=2) by ops (10.0.0.9:4711) at 09:02:00 UTC, until 09:32:00 UTC", admitted: 100, answered: 100, refused: 100, by: full, latency: 22 * time.Millisecond, limit: 2},
	}
}

// byCause are counts of refusals.
type byCause map[limiter.Cause]uint64

func (b byCause) By(i int) uint64 { return b[limiter.Causes()[i]] }

// ingressOf counts what an ingress does, second by second.
type ingressOf struct {
	book   history.Book
	health *ingress.Health
	sum    limiter.Counts
	door   ingress.Status
	held   int
	base   time.Duration
	last   incident
	mode   limiter.Mode
	began  time.Time
	until  time.Time // of the certificate
}

// newIngressOf returns an ingress before a backend that takes base without load.
func newIngressOf(base time.Duration) *ingressOf {
	o := &ingressOf{health: ingress.NewHealth("http://db"), base: base, began: time.Now(), until: time.Now().Add(time.Hour)}
	o.door.Refused = make([]uint64, len(ingress.Refusals()))
	o.sum.Rejected, o.sum.RejectedBy = map[labels.Reason]uint64{}, map[limiter.Cause]uint64{}
	o.door.Responses = make([]uint64, len(ingress.Responses()))
	o.door.Attempts = make([]uint64, len(ingress.Attempts()))
	return o
}

// second lets one second of an incident pass.
func (o *ingressOf) second(s incident) {
	time.Sleep(time.Second)
	o.last = s
	held := s.held + int(s.admitted/50)
	if s.held > 0 {
		o.sum.Admitted += uint64(max(held-o.held, 0)) // those that hang
	}
	o.sum.Admitted += s.admitted
	o.held = held
	o.sum.Busy += time.Duration(s.answered) * s.latency
	o.sum.Ignored += s.errors
	o.sum.Dropped += s.fails
	o.sum.Abandoned += s.left
	if s.refused > 0 {
		o.sum.RejectedBy[s.by] += s.refused
		o.sum.Rejected[s.by.Reason] += s.refused
	}
	well, ill := ingress.Response2xx, ingress.Response5xx
	if s.wire {
		well, ill = ingress.ResponseOK, ingress.ResponseError
	}
	o.door.Attempts[ingress.AttemptFirst] += s.first
	o.door.Attempts[ingress.AttemptRetry] += s.retries
	o.door.Responses[well] += s.answered
	o.door.Responses[ill] += s.errors
	if s.invalid > 0 {
		if o.door.Invalid == nil {
			o.door.Invalid = []ingress.InvalidCount{{Status: 413}}
		}
		o.door.Invalid[0].Count += s.invalid
	}
	b := o.health.Of("http://db")
	if s.answered+s.errors > 0 {
		b.Answered()
	}
	for range s.fails {
		b.Failed(s.cause, errors.New("failed"))
	}
	for range s.lacks {
		b.Failed(ingress.Unreachable, syscall.EMFILE)
	}
	o.sum.Ignored += s.lacks
	o.door.Refused[ingress.BadHandshake] += s.strange
	o.door.Refused[ingress.NoDescriptors] += s.scarce
	if s.base > 0 { // a limit learns another base in a minute or so
		o.base += (s.base - o.base) / 20
	}
	o.read()
}

// read tells the book.
func (o *ingressOf) read() {
	o.door.Responses = slices.Clone(o.door.Responses)
	o.door.Invalid = slices.Clone(o.door.Invalid)
	o.door.Attempts = slices.Clone(o.door.Attempts)
	o.door.Refused = slices.Clone(o.door.Refused)
	o.door.Certificate = o.until
	if o.last.expired {
		o.door.Certificate = o.began
	}
	o.book.About(o.last.process)
	door := o.door
	held := o.held
	o.book.Take(time.Now(), []history.Reading{{
		Name: "orders",
		Gate: limiter.Status{
			Name: "orders", Mode: o.mode, InFlight: held, Fallback: o.last.fallback, Labels: []limiter.LabelStatus{{Label: "default", Counts: o.counts(), InFlight: held}},
		},
		Partitions: slices.Values([]limiter.Brief{
			{Name: "default"},
			{
				Name: "acme", Key: true, Number: 1, Admitted: o.sum.Admitted, Refused: o.sum.RejectedBy[o.last.by], BaseRTT: o.base,
				Limit: o.last.limit, InFlight: held, Why: o.last.why, Refusals: byCause(o.counts().RejectedBy),
			},
		}),
		Backends: o.health.Status(time.Now()), Connections: &door,
		Pinned: func(partition string, _ bool) string {
			if partition == "acme" {
				return o.last.pinned
			}
			return ""
		},
	}})
}

// counts copies the counts: a reading is not changed afterwards.
func (o *ingressOf) counts() limiter.Counts {
	c := o.sum
	c.Rejected, c.RejectedBy = map[labels.Reason]uint64{}, map[limiter.Cause]uint64{}
	for cause, n := range o.sum.RejectedBy {
		c.Rejected[cause.Reason] += n
		c.RejectedBy[cause] = n
	}
	return c
}

// tell writes what is said now.
func (o *ingressOf) tell(w *strings.Builder, when string) {
	v := o.book.Verdict("orders", time.Now())
	fmt.Fprintf(w, "%s\n\t%s (%s): %s\n", when, v.Condition, v.Level, v.Text)
	if f := o.book.Forecast("orders", time.Now()); f != "" {
		fmt.Fprintf(w, "\tforecast: %s\n", f)
	}
	if e, ok := o.book.Explain("orders", "acme", time.Now()); ok {
		fmt.Fprintf(w, "\texplain: %s\n", e.Text)
	}
}

// What is said of each incident, two seconds after it began, when it has lasted a minute,
// and after it is over. No two sentences contradict each other.
func TestIncidents(t *testing.T) {
	var w strings.Builder
	for _, s := range incidents() {
		synctest.Test(t, func(*testing.T) {
			o := newIngressOf(20 * time.Millisecond)
			calm := calmly()
			calm.wire = s.wire
			for range 120 {
				o.second(calm)
			}
			fmt.Fprintf(&w, "== %s\n", s.name)
			for range 2 {
				o.second(s)
			}
			o.tell(&w, "after 2 s")
			for range 58 {
				o.second(s)
			}
			o.tell(&w, "after a minute")
			for range 5 {
				o.second(calm)
			}
			o.tell(&w, "recovered for 5 s")
		})
	}
	golden.Text(t, "incidents.golden", w.String())
}
