package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Turn is what a session owes its client, and the permit that this takes.
type Turn struct {
	c   *Relay
	o   *settings       // of the relay when the session began
	ctx context.Context //nolint:containedctx // of what is admitted already, in a drain too

	state atomic.Uint32 // what is owed; the protocol's own notes are ordered by it
	rests atomic.Bool   // a permit that is held while nothing is owed stands for no work

	paused atomic.Bool // the permit was given back while nobody works; set with mu

	// When the last answer was complete, of a session that keeps its permit: as the
	// relay's tick, and as how often the watch had looked.
	restedTick atomic.Uint32
	restedLook atomic.Uint64

	mu     sync.Mutex // guards the fields below; never held across a wait
	permit limiter.Permit
	asked  limiter.Request // for it
	held   bool            // the permit is not ended
	tick   uint32          // of the relay when the permit was taken
	broken bool            // it was taken again since: its age says nothing
	large  bool            // the message was sent later than it was decided about
	left   bool            // the client has gone
	// suspended: the permit was given back while the backend waits for somebody
	// else, and the work is not over.
	suspended bool
	yielded   bool          // [Turn.Yield] gave the permit back
	stall     limiter.Stall // of a permit that was given back because the client reads nothing
	sent      int64         // monotonic ns when the end of a large message was sent; 0 = it was not
}

// Admit asks the gate for a permit, which the session holds until
// [Turn.End]. It may wait; what was decided before is then sent, and the
// wait ends when the client goes. The error is a [*limiter.Rejection], or the
// connection's end. Only from Inspect.
func (s *Session) Admit(req limiter.Request) error {
	s.up.wait.admits = true
	permit, err := s.c.gate.Admit(&s.up.wait, req) // ends with the client, not with the drain: who waits already is served
	s.up.wait.admits = false
	touched, sendErr := s.up.wait.end()
	if touched {
		s.up.touched()
	}
	switch {
	case sendErr != nil:
		permit.End(limiter.Ignored)
		return sendErr
	case err != nil:
		return s.unadmitted(err)
	}
	s.hold(permit, req)
	return nil
}

// unadmitted returns why there is no permit.
func (s *Session) unadmitted(err error) error {
	if rej, refused := errors.AsType[*limiter.Rejection](err); refused {
		return rej
	}
	if s.up.wait.wasInterrupted() {
		return ErrInterrupted
	}
	return fmt.Errorf("%w: %w", ErrClientGone, err)
}

// Interrupt ends the wait of a message in [Session.Admit] with
// [ErrInterrupted], and reports whether one waited there. It is safe for
// concurrent use.
func (s *Session) Interrupt() bool { return s.up.wait.leave(true) }

// The state of a turn.
const (
	turnOpen  = 1 << iota // an answer is owed
	turnIdle              // a drain need not wait for it
	turnLands             // it is on its way to the client
)

// expect opens the turn.
func (t *Turn) expect(idle bool) {
	if t.rests.Load() && t.restedLook.Load() != t.c.watch.looks.Load() {
		t.spoil()
	}
	state := uint32(turnOpen)
	if idle {
		state |= turnIdle
	}
	t.state.Store(state)
	t.resume() // the permit may have been given back since the message came
}

// land notes that the last answer is on its way to the client.
func (t *Turn) land() { t.state.Or(turnLands) }

// fulfil closes the turn.
func (t *Turn) fulfil() {
	if t.rests.Load() {
		t.restedTick.Store(t.c.ticks.Load())
		t.restedLook.Store(t.c.watch.looks.Load())
	}
	t.state.Store(0)
}

// spoil notes that the client was idle with its permit for so long that the permit's
// age says nothing of the backend: the watch has looked meanwhile, which it does once
// a second at most.
func (t *Turn) spoil() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.broken = true
}

// Owes reports whether the client waits for an answer to a message that passed
// with [Verdict.Expect].
func (t *Turn) Owes() bool {
	open, _ := t.owes()
	return open
}

// owes reports whether an answer is owed, and whether a drain need not wait for
// it.
func (t *Turn) owes() (open, idle bool) {
	s := t.state.Load()
	return s&turnOpen != 0, s&turnIdle != 0
}

// landing reports whether an answer is owed and on its way.
func (t *Turn) landing() bool { return t.state.Load()&(turnOpen|turnLands) == turnOpen|turnLands }

// hold keeps a permit, and what was asked for it. One that is held still is
// ended: it belongs to work that the protocol forgot.
func (t *Turn) hold(p limiter.Permit, asked limiter.Request) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.held {
		t.permit.End(limiter.Ignored)
	}
	t.permit, t.asked = p, asked
	t.held, t.broken, t.large, t.suspended, t.yielded = true, false, false, false, false
	t.endStall()
	t.tick = t.c.ticks.Load()
	t.restedLook.Store(t.c.watch.looks.Load())
	t.paused.Store(false)
}

// pause gives the permit back while the backend can only wait for the client. unread:
// since the client reads nothing. The backend may be at work all the same, while the
// buffers on the way take what it says, so that half of a limit is given back for that
// at most, and at least one permit.
func (t *Turn) pause(unread bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || t.left {
		return
	}
	if unread {
		stall := t.permit.Stall()
		if stall.Excessive() {
			stall.End()
			return
		}
		t.stall = stall
	}
	t.held = false
	t.permit.End(limiter.Ignored)
	t.paused.Store(true)
}

// endStall notes that a permit is not given back any more; with mu.
func (t *Turn) endStall() {
	t.stall.End()
	t.stall = limiter.Stall{}
}

// resume takes a permit again, by force: the work began long ago, and may hold
// locks.
func (t *Turn) resume() {
	if !t.paused.Load() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.paused.Swap(false) {
		return
	}
	t.endStall()
	if t.left && !t.suspended {
		return
	}
	t.suspended = false
	req := t.asked
	req.Exempt, req.Continues, req.MaxWait = true, true, limiter.NoWait
	if p, err := t.c.gate.Admit(t.ctx, req); err == nil {
		t.permit, t.held, t.broken, t.tick = p, true, true, t.c.ticks.Load()
		if t.left {
			t.permit.Leave()
		}
	}
}

// Held returns the partition of the permit that is held, and reports whether it
// was taken before the tick; see [Relay.Tick]. "" = none is held.
func (t *Turn) Held(tick uint32) (partition string, before bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return "", false
	}
	return t.permit.Partition(), t.takenBefore(tick)
}

// takenBefore reports whether the permit was taken before the tick, and is held since
// for one answer; with mu.
func (t *Turn) takenBefore(tick uint32) bool {
	return int32(t.tick-tick) < 0 && (!t.rests.Load() || int32(t.restedTick.Load()-tick) < 0)
}

// Yield gives the permit back that a session has kept since before the tick although
// it owes nothing; see [Turn.Rest]. What the client sends next takes one again, by
// force. A limit is told how long it was held if o is [limiter.Success]. It reports
// whether it was given back, and is safe for concurrent use.
func (t *Turn) Yield(tick uint32, o limiter.Outcome) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || !t.rests.Load() || !t.takenBefore(tick) {
		return false
	}
	t.paused.Store(true) // before Owes: expect opens the turn, and resumes then
	if t.Owes() {
		t.paused.Store(false)
		return false
	}
	t.held, t.yielded = false, true
	if t.broken || t.large {
		o = limiter.Ignored
	}
	t.large = false
	t.permit.End(o)
	return true
}

// Yielded reports whether [Turn.Yield] gave back the permit that was asked for last.
// It is safe for concurrent use.
func (t *Turn) Yielded() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.yielded
}

// Suspend gives the permit back if it was taken before the tick, for work at which
// the backend does nothing: it waits for another session. The work is not over:
// [Turn.Resume] takes a permit for it again, and so does what moves. It reports
// whether it was given back, and is safe for concurrent use.
func (t *Turn) Suspend(tick uint32) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held || !t.takenBefore(tick) {
		return false
	}
	t.held, t.suspended = false, true
	t.permit.End(limiter.Ignored)
	t.paused.Store(true)
	return true
}

// Suspended reports whether [Turn.Suspend] gave back the permit of work that is not
// over. It is safe for concurrent use.
func (t *Turn) Suspended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.suspended
}

// Resume takes the permit of a suspended session again, by force. It is safe for
// concurrent use.
func (t *Turn) Resume() {
	if t.Suspended() {
		t.resume()
	}
}

// uploading notes that a message is on its way that is not all there.
func (t *Turn) uploading() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.large, t.sent = true, 0
}

// uploaded notes when its end was sent.
func (t *Turn) uploaded() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent = t.c.gate.Now()
}

// End ends the session's permit, if it holds one. The latency of what took the
// client longer to send than to decide about begins when its end was sent: the
// client's line says nothing of the backend. It is safe for concurrent use.
func (t *Turn) End(o limiter.Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused.Store(false)
	t.endStall()
	t.suspended = false
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
		latency = max(time.Duration(t.c.gate.Now()-t.sent), 1)
	case o == limiter.Success: // answered before its end: no latency
		o = limiter.Ignored
	}
	t.permit.EndSampled(latency, o)
}

// Carried tells how many bytes the request of the permit moved; see
// [limiter.Permit.Carried].
func (t *Turn) Carried(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permit.Carried(int64(bytes))
}

// Charge spends further tokens on account of the permit; see
// [limiter.Permit.Charge].
func (t *Turn) Charge(tokens float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.permit.Charge(tokens)
}

// Rest says that a permit which the session holds while it owes nothing stands
// for no work, so that nobody waits for its end when the client leaves.
func (t *Turn) Rest() { t.rests.Store(true) }

// leave notes that the client has gone. It reports whether a permit is held
// all the same, for work that goes on. With lost it is the backend that has gone, and
// the client did not leave it any work.
func (t *Turn) leave(lost bool) (held bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	working := (t.held || t.suspended) && (!t.rests.Load() || t.state.Load()&turnOpen != 0)
	if working && t.held && !t.left && !lost {
		t.permit.Leave()
	}
	t.left = true
	return working
}
