package relay

import "time"

// drainPoll is how soon a draining session looks again whether it may end. It
// doubles up to drainPollMax, so that thousands of idle sessions that wait for
// what is open elsewhere leave the processor to it.
const (
	drainPoll    = 25 * time.Millisecond
	drainPollMax = 400 * time.Millisecond
)

// drain tells the session that a drain began: who reads the client wakes up,
// and what is finished for nobody has not as long as before.
func (s *Session) drain() {
	s.life.draining.Store(true)
	s.stayAwake()
	if l := s.backend.Load(); l != nil && s.life.leaving.Load() {
		_ = l.conn.SetReadDeadline(time.Now().Add(s.c.o.Linger))
		return
	}
	s.nudge()
	s.Wake()
}

// nudge has the client's side look whether a drain lets it end.
func (s *Session) nudge() { _ = s.raw.SetReadDeadline(time.Unix(1, 0)) }
