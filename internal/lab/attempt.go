package lab

import (
	"time"

	"github.com/admitd/admitd/limiter"
)

// attempt is one sending of a request. It has two ends that need not come
// together: the caller is told something or leaves, and the backend is done with
// the work. The permit stands for the work.
type attempt struct {
	f        *flight
	permit   Permit // held; nil before admission and after its end
	withdraw func() // takes the request out of the door's queue; nil = it is in none
	job      *job
	since    int64 // virtual ns when it was admitted
	gone     bool  // the caller has an answer or has left
}

// Admitted implements [Entrant].
func (a *attempt) Admitted(p Permit) {
	g := a.f.g
	a.permit, a.withdraw, a.since = p, nil, g.w.now
	if a.gone {
		a.end(limiter.Ignored) // granted at the moment at which the caller left
		return
	}
	a.job = g.backend.submit(a.f.work, a)
	if a.job == nil {
		a.failed()
		return
	}
	if time.Duration(g.s.BackendTimeout) <= a.f.patience {
		g.w.After(time.Duration(g.s.BackendTimeout), a.timeout)
	}
}

// Refused implements [Entrant].
func (a *attempt) Refused(why Refusal) {
	if a.gone {
		return
	}
	a.gone = true
	a.f.refused(why)
}

// served is the backend's answer, also when nobody listens.
func (a *attempt) served() {
	a.end(limiter.Success)
	if a.gone {
		a.f.g.tally.wasted(a.f.born)
		return
	}
	a.gone = true
	a.f.answered()
}

// failed is the backend's refusal: its queue is full, or was too long.
func (a *attempt) failed() {
	a.end(limiter.Dropped)
	a.fail()
}

// expire is the end of the caller's patience.
func (a *attempt) expire() {
	if a.gone {
		return
	}
	if a.withdraw != nil {
		a.withdraw()
	} else if a.permit != nil {
		a.leave()
	}
	a.fail()
}

// leave is what a gate does when the caller has gone and the backend still
// works. A gate of ours that finishes goes on waiting for the answer; what has no
// such permit, and one that cancels, closes the backend's connection and has its
// place free, whether the backend stops or not.
func (a *attempt) leave() {
	g := a.f.g
	leaver, stays := a.permit.(Leaver)
	if stays {
		leaver.Leave()
	}
	if !stays || g.s.Cancels() {
		g.backend.hangUp(a.job)
		a.end(limiter.Ignored)
		return
	}
	if time.Duration(g.s.BackendTimeout) > a.f.patience { // else it runs already
		g.w.At(a.since+int64(g.s.BackendTimeout), a.timeout)
	}
}

// timeout is the end of the gate's own patience with the backend.
func (a *attempt) timeout() {
	if a.permit == nil {
		return
	}
	a.f.g.backend.hangUp(a.job)
	a.end(limiter.Dropped)
	a.fail()
}

// end ends the permit, if it is still held.
func (a *attempt) end(o limiter.Outcome) {
	if p := a.permit; p != nil {
		a.permit = nil
		p.End(o)
	}
}

// fail tells the caller, if there still is one, that there is no answer.
func (a *attempt) fail() {
	if !a.gone {
		a.gone = true
		a.f.failed()
	}
}
