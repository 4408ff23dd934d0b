package tuner_test

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/tuner"
)

// start is when every test begins.
var start = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// world is a gate before a backend in played time: an open load, a token rate,
// and a backend that works off what it can and lets the rest wait. Every
// latency is what a request met that came at that moment.
type world struct {
	now        time.Time
	demand     float64 // requests offered per second
	capacity   float64 // requests per second that the backend can do
	settings   map[string]map[string]any
	file       []byte // settings as the configuration has them
	generation uint64
	hold       string
	objectives map[string]time.Duration
	refuse     error  // what the door says
	by         string // who asked for the last change

	backlogged float64 // requests that wait in the backend
	busy       float64 // share of the capacity that is used
	vitals     tuner.Measurements
	fractions  map[string]float64
	noise      float64
	failing    float64 // share of the work that fails

	objective     float64
	broken        time.Duration // since when the objective is broken without a break
	longestBroken time.Duration
	brokenTotal   time.Duration

	each func(w *world) // called every second before the tuners look
}

const (
	base    = 0.01 // seconds that a request takes of an idle backend
	permits = 500  // requests that may be in flight, far too many for the objective
)

// newWorld returns a gate "orders" with a request rate, and partitions.
func newWorld(t *testing.T, demand, capacity, rate float64) *world {
	t.Helper()
	w := &world{
		now: start, demand: demand, capacity: capacity, objective: 0.1, fractions: map[string]float64{},
		vitals: tuner.Measurements{Latency: tuner.Latencies{}}, generation: 1,
	}
	w.write(t, rate)
	return w
}

// write is an editor that saves the configuration, and a reload.
func (w *world) write(t *testing.T, rate float64) {
	t.Helper()
	limit := map[string]any{"algorithm": "aimd", "requestTimeout": "200ms", "initialLimit": 20.0, "maxLimit": 100.0}
	doc := map[string]map[string]any{"orders": {
		"requests": map[string]any{"rate": rate, "queueDepth": 0.0}, "connections": map[string]any{"rate": 0.0, "maxOpen": 100.0},
		"partitions": map[string]any{
			"total": 0.0, "default": map[string]any{"rate": 0.0, "limit": limit},
			"named": map[string]any{"check.out": map[string]any{"rate": 50.0, "limit": limit}, "b": map[string]any{"rate": 0.0, "limit": limit}},
		},
	}}
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	w.file = b
	w.reload(t)
}

func (w *world) reload(t *testing.T) {
	t.Helper()
	w.settings = nil
	if err := json.Unmarshal(w.file, &w.settings); err != nil {
		t.Fatalf("unmarshal: %v", err)
	}
	w.generation++
}

// Read implements [tuner.Gate].
func (w *world) Read() tuner.State {
	v := w.vitals
	v.Latency = maps.Clone(v.Latency)
	return tuner.State{Hold: w.hold, Generation: w.generation, Settings: w.settings, Objectives: w.objectives, Vitals: map[string]tuner.Measurements{"orders": v}}
}

// Patch implements [tuner.Gate].
func (w *world) Patch(_ context.Context, generation uint64, ingress, by string, document []byte) error {
	w.by = by
	if w.refuse != nil {
		return w.refuse
	}
	if generation != w.generation || w.settings[ingress] == nil {
		return errors.New("not the configuration that was read")
	}
	var patch map[string]any
	if err := json.Unmarshal(document, &patch); err != nil {
		return err
	}
	merge(w.settings[ingress], patch)
	return w.valid()
}

// valid is what the configuration asks of limits.
func (w *world) valid() error {
	parts := w.settings["orders"]["partitions"].(map[string]any)
	for _, p := range slices.AppendSeq([]any{parts["default"]}, maps.Values(parts["named"].(map[string]any))) {
		limit := p.(map[string]any)["limit"].(map[string]any)
		if limit["initialLimit"].(float64) > limit["maxLimit"].(float64) {
			return errors.New("initialLimit must be at most maxLimit")
		}
	}
	return nil
}

// merge lays a patch over settings.
func merge(settings, patch map[string]any) {
	for k, v := range patch {
		if was, ok := settings[k].(map[string]any); ok {
			merge(was, v.(map[string]any))
			continue
		}
		settings[k] = v
	}
}

// rate is the request rate in force.
func (w *world) rate() float64 {
	r := w.settings["orders"]["requests"].(map[string]any)["rate"].(float64)
	if r == 0 {
		return math.Inf(1)
	}
	return r
}

// step lets a second pass.
func (w *world) step() {
	for range 10 {
		const dt = 0.1
		admitted := min(w.demand*dt, w.rate()*dt, max(permits-w.backlogged, 0)+w.capacity*dt)
		w.backlogged += admitted
		done := min(w.backlogged, w.capacity*dt)
		w.backlogged -= done
		w.busy = 0.8*w.busy + 0.2*done/(w.capacity*dt)
		latency := base/max(1-0.9*done/(w.capacity*dt), 0.1)*0.5 + w.backlogged/w.capacity
		w.vitals.Offered += w.count("offered", w.demand*dt)
		w.vitals.Refused += w.count("refused", w.demand*dt-admitted)
		w.vitals.Latency[bucket(latency)] += w.count("done", done*(1-w.failing))
		w.judge(latency, time.Duration(dt*float64(time.Second)))
	}
	w.now = w.now.Add(time.Second)
	if w.each != nil {
		w.each(w)
	}
}

// cpu is what a host says of its work: no two readings are the same, unless it
// is as busy as it can be.
func (w *world) cpu() float64 {
	w.noise = math.Mod(w.noise*97+0.31, 1)
	return min(w.busy*(0.98+0.04*w.noise), 1)
}

// count turns a flow into whole requests.
func (w *world) count(name string, n float64) uint64 {
	whole, rest := math.Modf(w.fractions[name] + n)
	w.fractions[name] = rest
	return uint64(whole)
}

func (w *world) judge(latency float64, dt time.Duration) {
	if latency <= w.objective {
		w.broken = 0
		return
	}
	w.broken += dt
	w.brokenTotal += dt
	w.longestBroken = max(w.longestBroken, w.broken)
}

// bucket is the bound of the histogram's bucket that a latency falls in.
func bucket(seconds float64) float64 {
	return math.Pow(2, math.Ceil(math.Log2(seconds)*8)/8)
}

// run lets time pass with the tuners looking once per second.
func (w *world) run(d time.Duration, tuners ...*tuner.Tuner) {
	for end := w.now.Add(d); w.now.Before(end); {
		w.step()
		for _, t := range tuners {
			t.Tick(context.Background(), w.now)
		}
	}
}

// kinds lists the kinds of the records that are kept, the oldest first.
func kinds(t *tuner.Tuner) []tuner.Kind {
	var out []tuner.Kind
	for _, r := range slices.Backward(t.Status(-1).Records) {
		out = append(out, r.Kind)
	}
	return out
}

// newest returns the newest record of a kind.
func newest(t *testing.T, u *tuner.Tuner, k tuner.Kind) *tuner.Record {
	t.Helper()
	for _, r := range u.Status(-1).Records {
		if r.Kind == k {
			return r
		}
	}
	t.Fatalf("no record of kind %s among %v", k, kinds(u))
	return nil
}
