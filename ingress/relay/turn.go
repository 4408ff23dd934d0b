package relay

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
)

// turn is what a session owes its client, and the permit that this takes.
type turn struct {
	state atomic.Uint32 // what is owed; the protocol's own notes are ordered by it
	rests atomic.Bool   // a permit that is held while nothing is owed stands for no work

	paused atomic.Bool // the permit was given back while nobody works; set with mu

	mu     sync.Mutex // guards the fields below; never held across a wait
	permit limiter.Permit
	asked  limiter.Request // for it
	held   bool            // the permit is not ended
	broken bool            // it was taken again since: its age says nothing
	large  bool            // the message was sent later than it was decided about
	left   bool            // the client has gone
	sent   int64           // monotonic ns when the end of a large message was sent; 0 = it was not
}

// The state of a turn.
const (
	turnOpen  = 1 << iota // an answer is owed
	turnIdle              // a drain need not wait for it
	turnLands             // it is on its way to the client
)

// begin opens the turn.
func (t *turn) begin(idle bool) {
	if idle {
		t.state.Store(turnOpen | turnIdle)
		return
	}
	t.state.Store(turnOpen)
}

// land notes that the last answer is on its way to the client.
func (t *turn) land() { t.state.Or(turnLands) }

// close ends the turn.
func (t *turn) close() { t.state.Store(0) }

// owes reports whether an answer is owed, and whether a drain need not wait for
// it.
func (t *turn) owes() (open, idle bool) {
	s := t.state.Load()
	return s&turnOpen != 0, s&turnIdle != 0
}

// landing reports whether an answer is owed and on its way.
func (t *turn) landing() bool { return t.state.Load()&(turnOpen|turnLands) == turnOpen|turnLands }

// hold keeps a permit, and what was asked for it. One that is held still is
// ended: it belongs to work that the protocol forgot.
func (t *turn) hold(p limiter.Permit, asked limiter.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.permit.End(limiter.Ignored)
	}
	t.permit, t.asked = p, asked
	t.held, t.broken, t.large = true, false, false
	t.paused.Store(false)
}

// pause gives the permit back while the backend can only wait for the client.
func (t *turn) pause() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held && !t.left {
		t.held = false
		t.permit.End(limiter.Ignored)
		t.paused.Store(true)
	}
}

// resume takes a permit again, by force: the work began long ago, and may hold
// locks.
func (t *turn) resume(admit func(limiter.Request) (limiter.Permit, error)) {
	if !t.paused.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.paused.Swap(false) || t.left {
		return
	}
	req := t.asked
	req.Exempt, req.Continues, req.MaxWait = true, true, limiter.NoWait
	if p, err := admit(req); err == nil {
		t.permit, t.held, t.broken = p, true, true
	}
}

// uploading notes that a message is on its way that is not all there.
func (t *turn) uploading() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.large, t.sent = true, 0
}

// uploaded notes when its end was sent.
func (t *turn) uploaded(now int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = now
}

// end ends the permit. The latency of what took the client longer to send than
// to decide about begins when its end was sent: the client's line says nothing
// of the backend.
func (t *turn) end(now func() int64, o limiter.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused.Store(false)
	if !t.held {
		return
	}
	t.held = false
	if t.broken && o == limiter.Success {
		o = limiter.Ignored
	}
	if !t.large {
		t.permit.End(o)
		return
	}
	t.large = false
	latency := time.Duration(1)
	switch {
	case t.sent > 0:
		latency = max(time.Duration(now()-t.sent), 1)
	case o == limiter.Success: // answered before its end: no latency
		o = limiter.Ignored
	}
	t.permit.EndSampled(latency, o)
}

// carried tells how many bytes were moved on account of the permit.
func (t *turn) carried(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permit.Carried(int64(bytes))
}

// charge spends further tokens on account of the permit.
func (t *turn) charge(tokens float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permit.Charge(tokens)
}

// leave notes that the client has gone. It reports whether a permit is held
// all the same, for work that goes on.
func (t *turn) leave() (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	working := t.held && (!t.rests.Load() || t.state.Load()&turnOpen != 0)
	if working && !t.left {
		t.permit.Leave()
	}
	t.left = true
	return working
}
