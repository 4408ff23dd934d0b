package observe

import (
	"math"

	dto "github.com/prometheus/client_model/go"

	"github.com/admitd/admitd/limiter"
)

// Latencies returns how many permits of a series ended within which time since
// the daemon began: counts by the upper bound of their bucket, in seconds.
// partition is a metric label as in [limiter.Permit.Label]. Bounds lie a tenth
// apart, and further when latencies spread widely. An unknown series is empty.
func (m *Metrics) Latencies(ingress, partition string, o limiter.Outcome) map[float64]uint64 {
	m.durations.mu.RLock()
	r := m.durations.recorders[seriesKey{ingress, partition}]
	m.durations.mu.RUnlock()
	if r == nil {
		return map[float64]uint64{}
	}
	return r.series[min(int(o), outcomes-1)].Load().counts()
}

// counts returns how many there were, by the upper bound of their bucket; nothing
// of a series that is not there.
func (s *series) counts() map[float64]uint64 {
	out := map[float64]uint64{}
	if s == nil {
		return out
	}
	metric := &dto.Metric{}
	if err := s.histogram.Write(metric); err != nil { // cannot happen: writing to memory
		return out
	}
	h := metric.GetHistogram()
	if n := h.GetZeroCount(); n > 0 {
		out[h.GetZeroThreshold()] = n
	}
	index, count, next := int32(0), int64(0), 0
	for _, span := range h.GetPositiveSpan() {
		index += span.GetOffset()
		for range span.GetLength() {
			count += h.GetPositiveDelta()[next]
			next++
			out[math.Exp2(float64(index)*math.Exp2(-float64(h.GetSchema())))] = uint64(count)
			index++
		}
	}
	return out
}
