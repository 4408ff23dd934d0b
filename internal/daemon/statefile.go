package daemon

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/baseline"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/history"
)

// memoryInterval is how often what limits learned is written down.
const memoryInterval = time.Minute

// memory keeps what limits have learned, and what people asked of the tuner, over
// restarts, where the configuration says so.
type stateFile struct {
	*shared

	path    string // "" = nowhere
	known   baseline.Memory
	learned func() []history.Learned // what is believed now; set before run
	running func() *config.Config
	failed  bool   // the last time to write
	unlock  func() // gives up the file; nil = it is not reserved; of run

	mu      sync.Mutex // guards problem
	problem string     // why it could not be written the last time; "" = it could
	// kept is what is kept of the tuner; restore takes what was kept before.
	kept    func() []byte
	restore func([]byte)
	soon    chan struct{} // has room for one: kept has changed
}

// read takes what was kept. What cannot be believed is left alone, and said.
func (m *stateFile) read(path string) {
	if m.path = path; path == "" {
		return
	}
	st, err := baseline.Read(path, time.Now())
	m.restore(st.Tuner)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		m.log.Info("no state file yet, limits begin anew", slog.String("path", path))
	case errors.Is(err, baseline.ErrForeign):
		m.log.Error("stateFile names a file of something else; it is left alone, and nothing is kept", slog.String("path", path))
		m.path = ""
	case err != nil:
		m.log.Warn("the state file is ignored, limits begin anew", slog.String("path", path), slog.Any("error", err))
	default:
		m.log.Info("baselines are known from before", slog.String("path", path),
			slog.Int("partitions", m.known.Load(st.Ingresses)), slog.Time("saved", st.Saved))
	}
}

// changed has what is kept written soon. It does not wait.
func (m *stateFile) changed() {
	select {
	case m.soon <- struct{}{}:
	default:
	}
}

// of returns what a limit of an ingress is told when it is made.
func (m *stateFile) of(in *config.Ingress) func(partition string, key bool, algorithm string) time.Duration {
	if m.path == "" {
		return nil
	}
	here := placeOf(in)
	return func(partition string, key bool, algorithm string) time.Duration {
		p, ok := m.known.Of(&here, partition, key, time.Now())
		if !ok || p.Algorithm != algorithm {
			return 0
		}
		return time.Duration(p.RTTNS)
	}
}

// remember takes what the limits believe before a reload, which may end ingresses.
func (m *stateFile) remember() {
	if m.path != "" {
		m.known.Saw(m.believed(time.Now()))
	}
}

// told returns the same for who explains it.
func (m *stateFile) told(in *config.Ingress) func(partition string, key bool) (history.Baseline, bool) {
	if m.path == "" {
		return nil
	}
	here := placeOf(in)
	return func(partition string, key bool) (history.Baseline, bool) {
		p, ok := m.known.Of(&here, partition, key, time.Now())
		return history.Baseline{RTT: time.Duration(p.RTTNS), Learned: p.Learned, InFlight: p.InFlight}, ok
	}
}

// placeOf names where something was learned.
func placeOf(in *config.Ingress) baseline.Ingress {
	return baseline.Ingress{Name: in.Name, Protocol: in.Protocol, Backend: in.Backend}
}

// algorithmOf returns the algorithm of a partition as it is configured.
func algorithmOf(in *config.Ingress, partition string, key bool) string {
	for i := range in.Partitions.Named {
		if n := &in.Partitions.Named[i]; !key && n.Name == partition {
			return n.Limit.Algorithm
		}
	}
	return in.Partitions.Default.Limit.Algorithm
}

// run writes what was learned every minute, and in the end; what people asked of the
// tuner at once.
func (m *stateFile) run(ctx context.Context) error {
	if m.path == "" {
		<-ctx.Done()
		return nil
	}
	defer func() {
		if m.unlock != nil {
			m.unlock()
		}
	}()
	m.write(time.Now()) // a place that cannot be written is told at once
	ticker := time.NewTicker(memoryInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			m.write(time.Now())
			return nil
		case <-ticker.C:
			m.write(time.Now())
		case <-m.soon:
			m.write(time.Now())
		}
	}
}

// write writes what is believed now. A disk that fails is told of once.
func (m *stateFile) write(now time.Time) {
	var err error
	if m.unlock == nil { // while another daemon has the file, nothing is written
		m.unlock, err = baseline.Lock(m.path)
	}
	if err == nil {
		err = baseline.Write(m.path, now, baseline.State{Ingresses: m.known.With(now, m.believed(now)), Tuner: m.kept()})
	}
	if err != nil && !m.failed {
		m.log.Error("the state file cannot be written, a restart will forget what limits learned",
			slog.String("path", m.path), slog.Any("error", err))
	}
	m.failed = err != nil
	m.metrics.StateWritten(err == nil, now)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.problem = ""
	if err != nil {
		m.problem = "the state file cannot be written, a restart will forget what limits learned: " + err.Error()
	}
}

// detail is what /readyz says of the state file; "" = it can be written, or there is none.
func (m *stateFile) detail() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.problem
}

// believed returns what the limits of every ingress believe.
func (m *stateFile) believed(now time.Time) []baseline.Ingress {
	cfg := m.running()
	out := make([]baseline.Ingress, 0, len(cfg.Ingresses))
	for i := range cfg.Ingresses {
		out = append(out, placeOf(&cfg.Ingresses[i]))
	}
	for _, l := range m.learned() {
		i := slices.IndexFunc(out, func(in baseline.Ingress) bool { return in.Name == l.Ingress })
		if i < 0 {
			continue
		}
		b := &l.Baseline
		out[i].Partitions = append(out[i].Partitions, baseline.Partition{
			Name: l.Partition, Key: l.Key, Algorithm: algorithmOf(&cfg.Ingresses[i], l.Partition, l.Key),
			RTTNS: int64(b.RTT), Learned: b.Learned.UTC(), InFlight: b.InFlight, Seen: now.UTC(),
		})
	}
	return out
}
