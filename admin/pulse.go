package admin

import (
	"context"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/vitals"
)

// pulseInterval is how often the book is told what happens.
const pulseInterval = time.Second

// pulse reads the daemon once a second, looked at or not, so that there is
// something to say as soon as somebody looks. It reads sums and a glance at each
// partition: 20,000 of them are a few milliseconds.
func (s *Server) pulse(ctx context.Context) {
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	for {
		s.beat(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// beat takes one reading.
func (s *Server) beat(now time.Time) {
	snapshot := s.o.State.Snapshot("", limiter.StatusOptions{Partitions: -1})
	all := make([]vitals.Reading, 0, len(snapshot.Ingresses))
	for i := range snapshot.Ingresses {
		in := &snapshot.Ingresses[i]
		r := vitals.Reading{Name: in.Name, Gate: in.Gate, Partitions: in.Glances, Backends: in.Backends}
		if in.Latencies != nil {
			r.Latencies = in.Latencies()
		}
		all = append(all, r)
	}
	s.book.Take(now, all)
}
