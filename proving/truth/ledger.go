package main

import (
	"math"
	"slices"
	"sync"
	"time"
)

// request is what is known of one request, by the client that sent it and by
// the backend that worked on it.
type request struct {
	tenant, class string
	sent          time.Time // the beginning of it was
	written       bool      // all of it was
	ended         time.Time // answered, or the client left
	status        int       // that the client read; 0 = none
	backend       bool      // the answer is the backend's
	left          bool      // the client went away without an answer
	refused       refusal
	unread        bool      // the client did not read the whole answer
	arrived, done time.Time // at the backend
	read          time.Time // its body was
	answered      int       // the status that the backend gave; 0 = none
}

// refusal is what a refused client was told.
type refusal struct{ reason, limit, partition string }

// ledger is the truth of one phase. It is safe for concurrent use.
type ledger struct {
	mu       sync.Mutex // guards the fields below
	requests []*request
	strays   int // arrivals that no client has a record of
	dialed   int // connections that clients opened
	open     int // of these, the ones that are open
}

// add begins a request and returns its number.
func (l *ledger) add(r *request) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests = append(l.requests, r)
	return len(l.requests) - 1
}

// change alters a request while nobody reads it.
func (l *ledger) change(id int, f func(r *request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id < 0 || id >= len(l.requests) {
		l.strays++
		return
	}
	f(l.requests[id])
}

// count returns for how many requests f is true.
func (l *ledger) count(f func(r *request) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if f(r) {
			n++
		}
	}
	return n
}

// by counts the requests that f names.
func (l *ledger) by(f func(r *request) (name string, counts bool)) map[string]float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := map[string]float64{}
	for _, r := range l.requests {
		if name, ok := f(r); ok {
			m[name]++
		}
	}
	return m
}

// connection notes that a client opened (1) or closed (-1) one.
func (l *ledger) connection(change int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if change > 0 {
		l.dialed++
	}
	l.open += change
}

// span of time in which a phase was steady.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool  { return !t.Before(s.from) && t.Before(s.to) }
func (s span) seconds() float64      { return s.to.Sub(s.from).Seconds() }
func (s span) length() time.Duration { return s.to.Sub(s.from) }
func wrote(r *request) bool          { return r.written || r.status > 0 }
func worked(r *request) bool         { return !r.arrived.IsZero() }
func refusedBy(r *request) bool      { return r.refused.reason != "" }
func invalid(r *request) bool {
	return r.status >= 400 && r.status < 500 && !r.backend && !refusedBy(r)
}
func failed(r *request) bool          { return r.status >= 500 && !r.backend && !refusedBy(r) }
func leftBehind(r *request) bool      { return r.left && worked(r) }
func good(r *request) bool            { return r.backend && r.status < 500 && !r.left }
func (s span) rate(n float64) float64 { return n / s.seconds() }

// latencies returns a quantile of how long the backend took for what it finished within
// the span, of how long clients waited for the same, in seconds, and for how many that is.
func (l *ledger) latencies(s span, quantile float64) (backend, client float64, n int) {
	l.mu.Lock()
	var worked, waited []float64
	for _, r := range l.requests {
		if s.has(r.done) && r.answered > 0 && r.answered < 500 {
			worked = append(worked, r.done.Sub(r.read).Seconds())
			waited = append(waited, r.ended.Sub(r.sent).Seconds())
		}
	}
	l.mu.Unlock()
	at := func(all []float64) float64 {
		if len(all) == 0 {
			return math.NaN()
		}
		slices.Sort(all)
		return all[min(int(quantile*float64(len(all))), len(all)-1)]
	}
	return at(worked), at(waited), len(worked)
}

// atWork returns how many requests the backend worked on over the span, on average.
func (l *ledger) atWork(s span) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0.0
	for _, r := range l.requests {
		if r.arrived.IsZero() {
			continue
		}
		from, to := r.arrived, r.done
		if from.Before(s.from) {
			from = s.from
		}
		if to.IsZero() || to.After(s.to) {
			to = s.to
		}
		total += max(0, to.Sub(from).Seconds())
	}
	return total / s.seconds()
}
