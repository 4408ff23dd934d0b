package observe

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// sample is one value read at scrape time. It shares its label pairs with other
// samples: a thousand partitions are tens of thousands of samples, and building
// labels would be most of the cost of a scrape.
type sample struct {
	desc    *prometheus.Desc
	pairs   []*dto.LabelPair // sorted by name, never changed
	value   float64
	counter bool
}

// Desc implements prometheus.Metric.
func (s *sample) Desc() *prometheus.Desc { return s.desc }

// Write implements prometheus.Metric.
func (s *sample) Write(out *dto.Metric) error {
	out.Label = s.pairs
	if s.counter {
		out.Counter = &dto.Counter{Value: &s.value}
	} else {
		out.Gauge = &dto.Gauge{Value: &s.value}
	}
	return nil
}

// pair returns a label. Bytes that are not UTF-8 would fail the whole scrape,
// so they are replaced.
func pair(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &dto.LabelPair{Name: &name, Value: &value}
}

// family is a metric name with its kind. Its label names must be sorted.
type family struct {
	desc    *prometheus.Desc
	counter bool
}

func newCounter(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), true}
}

func newGauge(name, help string, labels ...string) family {
	return family{prometheus.NewDesc(namespace+"_"+name, help, labels, nil), false}
}

// send emits one value. pairs are in the order of the family's label names.
func (f family) send(ch chan<- prometheus.Metric, value float64, pairs ...*dto.LabelPair) {
	ch <- &sample{desc: f.desc, pairs: pairs, value: value, counter: f.counter}
}

// number is 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
