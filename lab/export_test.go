package lab

import (
	"io"
	"time"

	"github.com/admitd/admitd/limiter"
)

// SyncTracer writes a trace without a buffer that could overflow: virtual time
// makes hours of records in a second.
type SyncTracer struct {
	enc *encoder
	w   io.Writer
}

// NewSyncTracer begins a trace.
func NewSyncTracer(w io.Writer) *SyncTracer {
	_, _ = io.WriteString(w, traceMagic)
	return &SyncTracer{enc: newEncoder(), w: w}
}

// Offered implements limiter.Tracer.
func (t *SyncTracer) Offered(now int64, key string, cost float64) {
	_, _ = t.w.Write(t.enc.append(nil, &record{kind: kindArrival, now: now, key: key, cost: cost}))
}

// Ended implements limiter.Tracer.
func (t *SyncTracer) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	_, _ = t.w.Write(t.enc.append(nil, &record{kind: kindEnded, now: now, start: start, latency: latency, outcome: o}))
}

// StaleCeilings lists the shipped variants that every run plays and whose ceiling
// is not known.
func StaleCeilings() ([]string, error) {
	list, err := Shipped()
	var stale []string
	for _, s := range list {
		for i := range s.Variants {
			run := s.apply(&s.Variants[i])
			if run.ceilings == nil && run.hasCeiling() && !run.Full {
				stale = append(stale, s.Name+", "+s.Variants[i].Name)
			}
		}
	}
	return stale, err
}
