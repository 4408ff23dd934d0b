package roundtrip

import (
	"net/http"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
)

const (
	// stallCheck is after how long a write to the client is looked at that holds a
	// permit, and how often from then on.
	stallCheck = time.Second
	// contendedGrace bounds how long it may take while others go without a permit.
	contendedGrace = 5 * time.Second
)

// stallWatch bounds writes to a client during which a permit is held: the client does
// not take its answer, so that the backend cannot send the rest. While nobody else
// wants the permit, the write deadline is all that counts.
type stallWatch struct {
	timer *time.Timer // runs check

	mu     sync.Mutex // guards the fields below
	rc     *http.ResponseController
	permit *limiter.Permit
	since  time.Time // when the write began; zero = there is none
	noted  bool      // the permit is counted as stalled
	stall  limiter.Stall
	cut    bool // the write was made to fail
}

// newStallWatch returns one that watches nothing.
func newStallWatch() *stallWatch {
	s := &stallWatch{}
	s.timer = time.AfterFunc(time.Hour, s.check)
	s.timer.Stop()
	return s
}

// begin begins to watch a write to the client of rc, for which permit is held.
func (s *stallWatch) begin(rc *http.ResponseController, permit *limiter.Permit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rc, s.permit, s.since, s.cut = rc, permit, time.Now(), false
	s.timer.Reset(stallCheck)
}

// end ends the watch and reports whether the write was made to fail.
func (s *stallWatch) end() (cut bool) {
	s.timer.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rc, s.permit, s.since = nil, nil, time.Time{}
	if s.noted {
		s.noted = false
		s.stall.End()
	}
	return s.cut
}

// check makes a write fail that takes too long.
func (s *stallWatch) check() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.IsZero() || s.cut {
		return
	}
	if !s.noted {
		s.noted, s.stall = true, s.permit.Stall()
	}
	if s.stall.Contended() && (s.stall.Excessive() || time.Since(s.since) >= contendedGrace) {
		s.cut = true
		s.noted = false // others may have the place at once
		s.stall.End()
		_ = s.rc.SetWriteDeadline(time.Unix(1, 0)) // without support the write lasts
		return
	}
	s.timer.Reset(stallCheck)
}
