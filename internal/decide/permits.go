package decide

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
)

// permits holds permits until they are returned or expire. Whoever takes one out of the map ends it; so it is ended once, however
// a return, the expiry and the end of the decision API meet.
type permits struct {
	bound int

	mu     sync.Mutex // guards the fields below; never held while a permit ends
	byID   map[string]*held
	booked int // places taken by requests that are being decided
	closed bool
}

// held is one permit and its expiry.
type held struct {
	permit limiter.Permit
	expiry *time.Timer
}

func newPermits(bound int) *permits {
	return &permits{bound: bound, byID: map[string]*held{}}
}

// book takes places for n permits, such as one that is about to be asked for, or
// none. Every place that was taken is followed by keep or unbook.
func (p *permits) book(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.byID)+p.booked+n > p.bound {
		return false
	}
	p.booked += n
	return true
}

// unbook gives a place back.
func (p *permits) unbook() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.booked--
}

// keep holds a permit in the place that was booked for it, and returns its id. A
// permit that had the id before ends as ignored: nobody can name it any more.
func (p *permits) keep(permit limiter.Permit, how Hold) (id string) {
	id = how.ID
	if id == "" {
		id = rand.Text() // at least 128 random bits
	}
	if loser := p.put(id, &held{permit: permit}, how); loser != nil {
		loser.permit.End(limiter.Ignored)
	}
	return id
}

// put places h where one was booked and returns what has no place now: the
// permit that had the id before, h itself when the decision API has closed, or nil.
func (p *permits) put(id string, h *held, how Hold) (loser *held) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.booked--
	if p.closed {
		return h
	}
	if loser = p.byID[id]; loser != nil {
		loser.expiry.Stop()
	}
	p.byID[id] = h
	h.expiry = time.AfterFunc(how.TTL, func() { p.expire(id, h, how.Expired) })
	return loser
}

// expire ends a permit that nobody returned, unless another one has its id by
// now.
func (p *permits) expire(id string, h *held, o limiter.Outcome) {
	if p.takeIf(id, h) {
		h.permit.End(o)
	}
}

// takeIf takes h out and reports whether it was there.
func (p *permits) takeIf(id string, h *held) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.byID[id] != h {
		return false
	}
	delete(p.byID, id)
	return true
}

// end takes the permit out and ends it. It reports false when there is none of
// that id: never granted, returned already, or expired.
func (p *permits) end(id string, o limiter.Outcome) bool {
	h := p.take(id)
	if h == nil {
		return false
	}
	h.expiry.Stop()
	h.permit.End(o)
	return true
}

func (p *permits) take(id string) *held {
	p.mu.Lock()
	defer p.mu.Unlock()
	h := p.byID[id]
	delete(p.byID, id)
	return h
}

// held returns how many permits are held.
func (p *permits) held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.byID)
}

// close ends every permit as ignored and lets no more in.
func (p *permits) close() {
	for id := range p.shut() {
		p.end(id, limiter.Ignored)
	}
}

// shut lets no more in and returns the ids of those that are held.
func (p *permits) shut() map[string]struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	ids := make(map[string]struct{}, len(p.byID))
	for id := range p.byID {
		ids[id] = struct{}{}
	}
	return ids
}
