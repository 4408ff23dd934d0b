package observe

import (
	"net/http"
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	namespace  = "admitd"
	maxScrapes = 4 // at a time; further ones are answered 503
)

// Options of [New]. The zero value works.
type Options struct {
	// Version of the program for admitd_build_info; "" = "dev".
	Version string
	// Process adds the metrics of the Go runtime and of the process.
	Process bool
}

// Metrics holds everything that admitd exposes to Prometheus. It is safe for
// concurrent use.
type Metrics struct {
	registry  *prometheus.Registry
	durations *durations
	gates     *gates
	doors     *doors
	backends  *backends
	moves     *limitMoves
	config    *configMetrics
	clock     *clockMetrics
	process   *processMetrics
	all       prometheus.Gatherer
}

// New returns metrics in a registry of their own.
func New(o Options) *Metrics {
	if o.Version == "" {
		o.Version = "dev"
	}
	gates := newGates()
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		durations: newDurations(),
		gates:     gates,
		doors:     newDoors(gates.ofBucket.tokens),
		backends:  newBackends(),
		moves:     newMoves(),
		config:    newConfigMetrics(),
		clock:     newClockMetrics(),
	}
	m.process = newProcessMetrics(m.doors.certificate)
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "build_info",
		Help:        "Always 1; the labels say which build is running.",
		ConstLabels: prometheus.Labels{"version": o.Version, "goversion": runtime.Version()},
	}, func() float64 { return 1 })
	m.all = &gatherer{sources: []source{m.durations, m.gates, m.doors, m.backends, m.moves, m.config, m.clock, m.process}, registry: m.registry}
	m.registry.MustRegister(build)
	if o.Process {
		m.registry.MustRegister(
			collectors.NewGoCollector(),
			collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		)
	}
	return m
}

// Register adds a collector of somebody else's, for example of a protocol's
// own counters. It fails when one of its metrics was registered before. Names of
// this package's own must not be used.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Gatherer returns what a scrape reads.
func (m *Metrics) Gatherer() prometheus.Gatherer { return m.all }

// Handler answers scrapes in the Prometheus text format, in OpenMetrics when
// the scraper asks for it (with exemplars), and in protobuf (with native
// histograms). At most 4 scrapes run at a time. How long a slow reader may take
// is for the server to bound.
func (m *Metrics) Handler() http.Handler {
	plain := promhttp.HandlerFor(m.all, promhttp.HandlerOpts{
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
		// A page of a thousand partitions took 34 ms at gzip's default level and
		// 9 ms at the fastest, which is enough for text this repetitive.
		DisableCompression: true,
	})
	return compressed(plain)
}
