package scenario

// BackendSpec describes the model of a backend.
type BackendSpec struct {
	// Workers serve one request each; > 0. With the discipline sharing they are
	// processors.
	Workers int `yaml:"workers"`
	// Discipline is fifo (who finds no worker free waits for one) or sharing (all
	// requests inside share the processors evenly, as those of a service that is
	// bound by its processors do). "" = fifo.
	Discipline string `yaml:"discipline"`
	// Service is the time a worker needs for one request.
	Service ServiceSpec `yaml:"service"`
	// Thrash makes every service longer by this share per request inside
	// beyond the workers: 0.002 is 0.2 %.
	Thrash float64 `yaml:"thrash"`
	// Contention makes every service longer the more are being served.
	Contention ContentionSpec `yaml:"contention"`
	// Queue bounds the requests that wait for a worker; beyond it the backend
	// refuses. 0 = unbounded.
	Queue int `yaml:"queue"`
	// QueueTimeout is how long a request waits for a worker, as for a connection of
	// a pool; then the backend refuses it. 0 = for ever.
	QueueTimeout Duration `yaml:"queueTimeout"`
	// Cancelled says what becomes of work whose connection was closed:
	// continues (it is done for nobody) or stops. "" = continues.
	Cancelled string `yaml:"cancelled"`
}

// Values of [BackendSpec.Discipline].
const (
	fifo    = "fifo"
	sharing = "sharing"
)

// Shares reports whether all requests inside share the processors.
func (s *BackendSpec) Shares() bool { return s.Discipline == sharing }

// ContentionSpec is the universal scalability law: with n requests being served,
// each takes 1 + Serial*(n-1) + Crosstalk*n*(n-1) times as long.
type ContentionSpec struct {
	Serial    float64 `yaml:"serial"`
	Crosstalk float64 `yaml:"crosstalk"`
}

// Factor returns how much longer a service takes with n being served.
func (c *ContentionSpec) Factor(n int) float64 {
	return 1 + c.Serial*float64(n-1) + c.Crosstalk*float64(n)*float64(n-1)
}

// Capacity returns the requests per second that the healthy backend can serve.
func (s *BackendSpec) Capacity() float64 { return s.CapacityIn(s.Healthy()) }

// Healthy returns the state of a backend that nothing is wrong with.
func (s *BackendSpec) Healthy() Health {
	return Health{Speed: 1, Workers: s.Workers, Share: s.Service.Share}
}

// CapacityIn returns the requests per second that can be served in a state: with
// contention, at the best number of busy workers.
func (s *BackendSpec) CapacityIn(h Health) float64 {
	if h.Frozen {
		return 0
	}
	alone := 1 / (s.Service.MeanAt(h.Share).Seconds() * h.Speed)
	if s.Contention == (ContentionSpec{}) {
		return alone * float64(h.Workers)
	}
	best := 0.0
	for n := 1; n <= h.Workers; n++ {
		best = max(best, alone*float64(n)/s.Contention.Factor(n))
	}
	return best
}
