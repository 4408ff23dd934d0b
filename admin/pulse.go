package admin

import (
	"context"
	"time"
)

// pulseInterval is how often the book is told what happens.
const pulseInterval = time.Second

// pulse reads the daemon once a second, looked at or not, so that there is
// something to say as soon as somebody looks. It reads sums and a glance at each
// partition: 20,000 of them are some milliseconds, in which it steps aside often.
func (s *Server) pulse(ctx context.Context) {
	s.press.pulsing.Store(true)
	defer s.press.pulsing.Store(false)
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	for {
		s.press.beat(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}
