package statusdoc

import (
	"iter"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Snapshot is everything that is read of the daemon at once.
type Snapshot struct {
	Version   string
	Started   time.Time
	Draining  bool
	Clock     status.Clock
	Config    status.Config
	Ingresses []Ingress
	Shadow    []status.Candidate
	Tuner     *status.Tuner // nil = none
	Fleet     *status.Fleet // nil = no group
	Process   Process
}

// Process is what is true of the process, for every ingress.
type Process struct {
	Fleet string // what the gate goes by, as in [status.Fleet]; "" = there is no group
	// Delay returns for how long work that is ready waits for a processor, and is called
	// once a second; nil = it is not known.
	Delay func() time.Duration
}

// Ingress is one protocol's front with its gate.
type Ingress struct {
	Name, Protocol, Listen, Backend string
	ETag                            string // of its settings; set by the status cache
	Gate                            limiter.Status
	Connections                     *ingress.Status // nil = none counted
	Backends                        []ingress.BackendStatus
	Ungated                         int64                   // open connections of which nothing is admitted
	Glances                         iter.Seq[limiter.Brief] // of every partition; nil = none
	// Latencies counts what succeeded since the start, by the upper bounds of
	// buckets in seconds; nil = not counted.
	Latencies func() map[float64]uint64
	// Own is the same of what the gate itself took of requests; nil = not counted.
	Own func() map[float64]uint64
	// Askers counts who makes the load; nil = nobody does.
	TopKeys *topkeys.Board
	// Recall returns what was learned of a partition in an earlier life of the
	// process; nil = nothing was.
	Recall func(partition string, key bool) (history.Baseline, bool)
	// Source tells where a setting was written; see [history.Reading]. nil = it
	// cannot be told.
	Source func(setting, partition string) string
	// Pinned words the override of a partition's limit; see [history.Reading]. nil = there is none.
	Pinned func(partition string, key bool) string
	// Elsewhere words rates that are in force by another gate's file; see [history.Reading].
	// nil = there are none.
	Elsewhere func(partition string, key bool) string
	// Rows words n of clients' keys at most, those of prefer first; nil = none.
	Rows func(prefer []string, n int) []limiter.PartitionStatus
	// Details are the protocol's own, for JSON; nil = none.
	Details any
}
