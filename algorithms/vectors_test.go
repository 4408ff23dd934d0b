package algorithms_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/platinummonkey/go-concurrency-limits/core"

	"github.com/admitd/admitd/algorithms"
)

// vector is one trajectory of the published Java reference.
type vector struct {
	Algorithm string                     `json:"algorithm"`
	Params    map[string]json.RawMessage `json:"params"`
	Columns   []string                   `json:"columns"`
	Before    int                        `json:"limit_before"`
	Samples   [][]json.RawMessage        `json:"samples"`
}

// The same samples in give the same limit after each as the reference, which
// rounds in other places now and then, so one permit of difference is allowed.
// ADMITD_VECTORS names a folder whose limits/*.json are played too. They once
// were all there was, and a fresh clone skipped the test without a word.
func TestVectors(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "vectors", "*.json"))
	if err != nil || len(files) < 24 {
		t.Fatalf("%d trajectories in testdata: %v", len(files), err)
	}
	if root := os.Getenv("ADMITD_VECTORS"); root != "" {
		more, err := filepath.Glob(filepath.Join(root, "limits", "*.json"))
		if err != nil || len(more) == 0 {
			t.Errorf("no trajectories in ADMITD_VECTORS (%s): %v", root, err)
		}
		files = append(files, more...)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			var v vector
			if err := json.Unmarshal(data, &v); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			replay(t, v)
		})
	}
}

// replay feeds the samples to the formula that v describes.
func replay(t *testing.T, v vector) {
	t.Helper()
	lim := build(t, v)
	if got := lim.EstimatedLimit(); got != v.Before {
		t.Errorf("limit before the first sample = %d; want %d", got, v.Before)
	}
	if len(v.Samples) == 0 {
		t.Fatal("the file has no samples")
	}
	for i, row := range v.Samples {
		sample := make(map[string]json.RawMessage, len(row))
		for c, name := range v.Columns {
			sample[name] = row[c]
		}
		rtt := decode[int64](t, sample["rtt_us"])
		inFlight := decode[int](t, sample["inflight"])
		dropped := decode[bool](t, sample["dropped"])
		want := decode[int](t, sample["limit_after"])
		lim.OnSample(0, rtt*1000, inFlight, dropped)
		if got := lim.EstimatedLimit(); got < want-1 || got > want+1 {
			t.Fatalf("sample %d (rtt %d us, in flight %d, dropped %t): limit = %d; want %d", i, rtt, inFlight, dropped, got, want)
		}
	}
}

// build returns the formula with the parameters of v. A parameter that it does
// not know fails the test, so that none is passed over in silence.
func build(t *testing.T, v vector) core.Limit {
	t.Helper()
	p := params{t: t, left: v.Params}
	defer p.done()
	probe := p.probe()
	switch v.Algorithm {
	case algorithms.KindFixed:
		return algorithms.NewFixed(algorithms.FixedOptions{Limit: p.integer("limit", "initialLimit")})
	case algorithms.KindAIMD:
		return algorithms.NewAIMD(algorithms.AIMDOptions{
			InitialLimit: p.integer("initialLimit"), MinLimit: p.integer("minLimit"), MaxLimit: p.integer("maxLimit"),
			BackoffRatio:   p.number("backoffRatio"),
			RequestTimeout: time.Duration(p.integer("requestTimeoutMicros")) * time.Microsecond,
		})
	case algorithms.KindVegas:
		return algorithms.NewVegas(algorithms.VegasOptions{
			InitialLimit: p.integer("initialLimit"), MaxLimit: p.integer("maxLimit"), Smoothing: p.number("smoothing"),
			AlphaFunc: p.function("alpha"), BetaFunc: p.function("beta"), ThresholdFunc: p.function("threshold"),
			ProbeMultiplier: probe,
		})
	case algorithms.KindGradient:
		return algorithms.NewGradient(algorithms.GradientOptions{
			InitialLimit: p.integer("initialLimit"), MinLimit: p.integer("minLimit"), MaxLimit: p.integer("maxLimit"),
			RTTTolerance: p.number("rttTolerance"), Smoothing: p.number("smoothing"), BackoffRatio: p.number("backoffRatio"),
			QueueSize: p.function("queueSize"), ProbeInterval: probe,
		})
	case algorithms.KindGradient2:
		return algorithms.NewGradient2(algorithms.Gradient2Options{
			InitialLimit: p.integer("initialLimit"), MinLimit: p.integer("minLimit"), MaxLimit: p.integer("maxLimit"),
			RTTTolerance: p.number("rttTolerance"), Smoothing: p.number("smoothing"), LongWindow: p.integer("longWindow"),
			QueueSize: p.function("queueSize"),
		})
	default:
		t.Fatalf("unknown algorithm %q", v.Algorithm)
		return nil
	}
}

// params reads each parameter once.
type params struct {
	t    *testing.T
	left map[string]json.RawMessage
}

func (p params) take(names ...string) json.RawMessage {
	for _, name := range names {
		if raw, ok := p.left[name]; ok {
			delete(p.left, name)
			return raw
		}
	}
	return nil
}

func (p params) integer(names ...string) int {
	p.t.Helper()
	return int(p.number(names...))
}

func (p params) number(names ...string) float64 {
	p.t.Helper()
	raw := p.take(names...)
	if raw == nil {
		return 0
	}
	return decode[float64](p.t, raw)
}

// probe returns a probe setting; the files disable probing, which is random.
func (p params) probe() int {
	p.t.Helper()
	raw := p.take("probe")
	if raw != nil && string(raw) != `"disabled"` {
		p.t.Fatalf("probe = %s; only \"disabled\" can be replayed", raw)
	}
	return -1
}

// function reads a number, or one of log10, sqrt, k*f and max(n,f).
func (p params) function(name string) func(int) int {
	p.t.Helper()
	raw := p.take(name)
	if raw == nil {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	f, err := parseFunction(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		p.t.Fatalf("%s: %v", name, err)
	}
	return f
}

func parseFunction(text string) (func(int) int, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return func(int) int { return int(n) }, nil
	}
	if inner, ok := strings.CutPrefix(text, "max("); ok {
		a, b, _ := strings.Cut(strings.TrimSuffix(inner, ")"), ",")
		f, err := parseFunction(a)
		if err != nil {
			return nil, err
		}
		g, err := parseFunction(b)
		return func(n int) int { return max(f(n), g(n)) }, err
	}
	if a, b, ok := strings.Cut(text, "*"); ok {
		f, err := parseFunction(a)
		if err != nil {
			return nil, err
		}
		g, err := parseFunction(b)
		return func(n int) int { return f(n) * g(n) }, err
	}
	switch text {
	case "log10":
		return algorithms.Log10, nil
	case "sqrt":
		return algorithms.Sqrt, nil
	default:
		return nil, fmt.Errorf("unknown function %q", text)
	}
}

// done fails the test for parameters that no one asked for.
func (p params) done() {
	p.t.Helper()
	for name := range p.left {
		p.t.Errorf("parameter %q is not honoured", name)
	}
}

func decode[T any](t *testing.T, raw json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}
