package main

import (
	"context"
	"sync"
	"time"
)

// watch sees to it that no counter of a gate goes backwards, whatever becomes of it.
type watch struct {
	gate *gate

	mu    sync.Mutex // guards the fields below
	most  map[string]float64
	looks int
	fell  []string
}

func newWatch(g *gate) *watch { return &watch{gate: g, most: map[string]float64{}} }

// run looks until ctx is done.
func (w *watch) run(ctx context.Context) {
	tick := time.NewTicker(300 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if m, err := w.gate.metrics(ctx); err == nil {
			w.look(m)
		}
	}
}

// look compares counters with the most they have been. Those that were and are not
// have fallen, too.
func (w *watch) look(m metrics) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := m.counters()
	w.looks++
	for name, before := range w.most {
		if now[name] < before {
			w.fell = append(w.fell, name)
		}
	}
	w.most = now
}

// sheet says what was seen.
func (w *watch) sheet() *sheet {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := &sheet{phase: "counters"}
	s.exact("counters", "that went backwards", 0, float64(len(w.fell)))
	if w.looks < 5 {
		s.fail("only %d looks", w.looks)
	}
	for _, name := range w.fell {
		s.fail("%s went backwards", name)
	}
	return s
}
