package lab

import (
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/labels"
)

// flight is one request on its way, over all its attempts.
type flight struct {
	g        *run
	gate     int // that it comes to, in [0, gates)
	key      string
	noisy    bool
	tokens   float64       // that the gate charges
	work     float64       // for the backend, as a multiple of its mean
	patience time.Duration // of its client, for one attempt
	born     int64         // virtual ns when it was due
	sent     int64         // virtual ns of the attempt in progress
	deadline int64         // virtual ns; 0 = none
	tries    int           // attempts made
	then     func()        // played when it has ended; nil = nothing
	state    client.State
}

// send starts one request of unit cost.
func (g *run) send(key string, noisy bool) {
	g.launch(&flight{gate: g.anyGate(), key: key, noisy: noisy, tokens: 1, work: 1})
}

// anyGate draws the gate that a request comes to.
func (g *run) anyGate() int {
	if len(g.doors) == 1 {
		return 0
	}
	return g.w.arrivals.IntN(len(g.doors))
}

// launch starts one request.
func (g *run) launch(f *flight) {
	f.g, f.born, f.patience, f.state = g, g.w.now, g.patience(), client.State{Kind: client.Read}
	if d := g.s.Clients.Deadline; d > 0 {
		f.deadline = f.born + int64(d)
	}
	f.try()
}

// try makes one attempt.
func (f *flight) try() {
	g := f.g
	f.tries++
	f.sent = g.w.now
	patience := f.patience
	if f.deadline > 0 {
		patience = min(patience, time.Duration(f.deadline-g.w.now))
	}
	g.tally.step(g.w.now).Attempts++
	r := Request{Key: f.key, Class: labels.Critical, Cost: f.tokens}
	if f.noisy {
		r.Class = labels.Sheddable
	}
	if g.s.Clients.TellDeadline {
		r.Patience = patience
	}
	a := &attempt{f: f}
	a.withdraw = g.doors[f.gate].Enter(r, a)
	if !a.gone {
		g.w.After(patience, a.expire)
	}
}

// answered ends the request.
func (f *flight) answered() {
	f.g.policy.Done(&f.state, f.g.budget)
	f.end(measure.Answered)
}

// refused retries or ends the request.
func (f *flight) refused(why Refusal) {
	var doc *labels.Document
	if f.g.policy.MaxRetries > 0 && why != nil {
		d := why()
		doc = &d
	}
	failure := f.g.s.Clients.Refused(doc)
	if !f.again(&failure) {
		f.end(measure.Refused)
	}
}

// failed retries or ends a request that has no answer.
func (f *flight) failed() {
	failure := f.g.s.Clients.Lost()
	if !f.again(&failure) {
		f.end(measure.Failed)
	}
}

// again asks the real policy whether to retry, and plans the retry.
func (f *flight) again(failure *client.Failure) bool {
	g := f.g
	left := client.NoDeadline
	if f.deadline > 0 {
		left = time.Duration(f.deadline - g.w.now)
	}
	d := g.policy.Next(&f.state, failure, left, g.budget)
	if !d.Retry {
		return false
	}
	g.w.After(d.Wait, f.try)
	return true
}

// end counts the request.
func (f *flight) end(v measure.Verdict) {
	g := f.g
	// Of a request that was sent again, the latency is that of the attempt that
	// counted: the waits before it are the client's own.
	g.tally.ended(&ending{
		born: f.born, latency: time.Duration(g.w.now - f.sent), tries: f.tries, gate: f.gate, noisy: f.noisy, spare: g.spare(), verdict: v,
	})
	if f.then != nil {
		f.then()
	}
}
