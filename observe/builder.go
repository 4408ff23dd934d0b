package observe

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// A thousand partitions are some forty thousand values. A registry of
// client_golang sends each through a channel, hashes its labels and sorts it,
// which is more than half the cost of a scrape. What this room reads at scrape
// time is therefore built here, straight into the form that is encoded; the
// price is that nobody but our tests checks it for consistency. Everything else
// goes through a registry.

// slab is how many values are allocated at once.
const slab = 512

// source adds what it knows to a scrape.
type source interface {
	collect(b *builder)
}

// builder puts the families of one scrape together.
type builder struct {
	families map[string]*dto.MetricFamily
	labels   map[[2]string]*dto.LabelPair
	gauges   []gaugeCell
	counters []counterCell
}

// gaugeCell and counterCell are a value with all that surrounds it, so that
// many can be allocated at once.
type gaugeCell struct {
	metric dto.Metric
	gauge  dto.Gauge
	value  float64
}

type counterCell struct {
	metric  dto.Metric
	counter dto.Counter
	value   float64
}

// family is a metric's name with its help and its type.
type family struct {
	name, help string
	kind       dto.MetricType
}

func newCounter(name, help string) family {
	return family{namespace + "_" + name, help, dto.MetricType_COUNTER}
}

func newGauge(name, help string) family {
	return family{namespace + "_" + name, help, dto.MetricType_GAUGE}
}

// add adds one value of f. pairs are sorted by name and never changed; many
// values may share them.
func (b *builder) add(f *family, value float64, pairs ...*dto.LabelPair) {
	into := b.family(f)
	if f.kind == dto.MetricType_COUNTER {
		if len(b.counters) == 0 {
			b.counters = make([]counterCell, slab)
		}
		c := &b.counters[0]
		b.counters = b.counters[1:]
		c.value, c.counter.Value = value, &c.value
		c.metric.Label, c.metric.Counter = pairs, &c.counter
		into.Metric = append(into.Metric, &c.metric)
		return
	}
	if len(b.gauges) == 0 {
		b.gauges = make([]gaugeCell, slab)
	}
	g := &b.gauges[0]
	b.gauges = b.gauges[1:]
	g.value, g.gauge.Value = value, &g.value
	g.metric.Label, g.metric.Gauge = pairs, &g.gauge
	into.Metric = append(into.Metric, &g.metric)
}

// family returns what is built of f so far.
func (b *builder) family(f *family) *dto.MetricFamily {
	into := b.families[f.name]
	if into == nil {
		into = &dto.MetricFamily{Name: &f.name, Help: &f.help, Type: f.kind.Enum()}
		b.families[f.name] = into
	}
	return into
}

// label is [pair] for labels from a small set, which values share.
func (b *builder) label(name, value string) *dto.LabelPair {
	key := [2]string{name, value}
	p := b.labels[key]
	if p == nil {
		p = pair(name, value)
		b.labels[key] = p
	}
	return p
}

// pair returns a label. Bytes that are not UTF-8 would fail the whole scrape,
// so they are replaced.
func pair(name, value string) *dto.LabelPair {
	value = strings.ToValidUTF8(value, "\uFFFD")
	return &dto.LabelPair{Name: &name, Value: &value}
}

// number is 1 for true.
func number(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// gatherer joins what the sources build with what a registry holds.
type gatherer struct {
	sources  []source
	registry prometheus.Gatherer
}

// clashing is a counter that client_golang has beside the gauge go_memstats_alloc_bytes.
// In OpenMetrics both families have one name, and strict parsers refuse the whole scrape.
const clashing = "go_memstats_alloc_bytes_total"

// Gather implements prometheus.Gatherer. Families come sorted by name.
func (g *gatherer) Gather() ([]*dto.MetricFamily, error) {
	b := &builder{families: map[string]*dto.MetricFamily{}, labels: map[[2]string]*dto.LabelPair{}}
	for _, s := range g.sources {
		s.collect(b)
	}
	families, err := g.registry.Gather()
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == clashing })
	for _, f := range b.families {
		families = append(families, f)
	}
	slices.SortFunc(families, func(a, b *dto.MetricFamily) int { return strings.Compare(a.GetName(), b.GetName()) })
	return families, err
}
