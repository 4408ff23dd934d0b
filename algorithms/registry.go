package algorithms

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/admitd/admitd/algorithms/knee"
	"github.com/admitd/admitd/algorithms/parts"
)

// The algorithms as the configuration spells them.
const (
	KindFixed     = "fixed"
	KindAIMD      = "aimd"
	KindVegas     = "vegas"
	KindGradient  = "gradient"
	KindGradient2 = "gradient2"
	KindKnee      = knee.Name
)

// Limit is what [New] returns: a limit that learns from permits as they end.
type Limit interface {
	Current() int
	Observe(now int64, latency time.Duration, inFlight int, dropped bool)
	Algorithm() string
	BaseRTT() time.Duration
	State() map[string]float64
}

// Settings describes one limit as the configuration does: which keys matter is up
// to the chosen algorithm. The zero value is a fixed limit of 20.
type Settings struct {
	Keys

	Algorithm string // one of [Kinds]; "" = fixed
	Window    WindowOptions

	// Gates is how many gates share the backend, each with a limit of its own;
	// 0 = 1. Limits, their bounds and their queues are divided among them, and
	// rounded up.
	Gates int
	// Others says that other gates share the backend, as many as nobody knows. Only
	// knee goes by it; see [knee.Options].
	Others bool
	// Queued says that requests which get no permit wait for one. Only knee looks at
	// it.
	Queued bool
	// Epoch is the wall clock at the zero of the limit's time, for gates that do
	// things at common moments; see [knee.Options]. 0 = they share it already.
	Epoch int64
	// Objective is the latency that is promised, 0 = none. Where nothing else is
	// said, aimd's request timeout is four fifths of it, and knee keeps what it
	// admits inside it.
	Objective time.Duration
	// Rand is the source of the jitter of probes; nil = the process's own. It is
	// called by one goroutine at a time.
	Rand func() uint64
}

// Keys are the keys of all algorithms; 0 = the algorithm's default. What they mean
// and their ranges are those of its options.
type Keys struct {
	Limit                            int
	InitialLimit, MinLimit, MaxLimit int
	RequestTimeout                   time.Duration
	BackoffRatio                     float64
	Alpha, Beta                      int
	RTTTolerance                     float64
	LongWindow                       int
}

// Row describes one algorithm: a row, and the file that it is in, are all there
// is to an algorithm.
type Row struct {
	Name string
	Keys []Key

	validate func(Settings) error
	limit    func(Settings) Limit
}

// Key is one key of an algorithm, as the configuration spells it.
type Key struct {
	Name    string
	Default any // an int, a float64 or a [time.Duration]
}

// Rows returns every algorithm, the default first.
func Rows() []Row {
	return []Row{kneeRow(), fixedRow(), aimdRow(), vegasRow(), gradientRow(), gradient2Row()}
}

// Kinds returns the names of all algorithms, the default first.
func Kinds() []string {
	var names []string
	for _, r := range Rows() {
		names = append(names, r.Name)
	}
	return names
}

// row returns the row of the chosen algorithm.
func (s Settings) row() (Row, error) {
	for _, r := range Rows() {
		if r.Name == parts.Or(s.Algorithm, KindFixed) {
			return r, nil
		}
	}
	return Row{}, fmt.Errorf("algorithms: algorithm must be one of %s (%s)", strings.Join(Kinds(), ", "), s.Algorithm)
}

// Validate reports every value of the chosen algorithm and of the window that
// is out of range.
func (s Settings) Validate() error {
	r, err := s.row()
	if err != nil {
		return err
	}
	return errors.Join(
		r.validate(s),
		parts.Check(r.Name, parts.InRange("gates", s.gates(), 1, 10_000), parts.Between("objective", s.Objective, 0, time.Hour)),
	)
}

// New returns the limit that s describes, or what [Settings.Validate] says.
func New(s Settings) (Limit, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	r, err := s.row()
	if err != nil {
		return nil, err
	}
	return r.limit(s), nil
}

// gates is how many share the backend.
func (s Settings) gates() int { return parts.Or(s.Gates, 1) }

// share is the part of n that falls to one of the gates, at least 1.
func (s Settings) share(n int) int { return max(1, (n+s.gates()-1)/s.gates()) }
