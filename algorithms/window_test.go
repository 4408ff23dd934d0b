package algorithms_test

import (
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/platinummonkey/go-concurrency-limits/core"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/algorithms"
)

// fed is one sample that a window gave to its formula.
type fed struct {
	RTT      time.Duration
	InFlight int
	Dropped  bool
}

// recorder is a formula that remembers what it was fed and says what it is
// told to say.
type recorder struct {
	core.Limit

	got   []fed
	limit int
}

func (r *recorder) EstimatedLimit() int { return r.limit }

func (r *recorder) OnSample(_, rtt int64, inFlight int, dropped bool) {
	r.got = append(r.got, fed{time.Duration(rtt), inFlight, dropped})
}

// sample is what a permit reports at an instant.
type sample struct {
	at       time.Duration
	latency  time.Duration
	inFlight int
	dropped  bool
}

// many returns n equal samples, gap apart, the first at at.
func many(n int, at, gap time.Duration, s sample) []sample {
	out := make([]sample, n)
	for i := range out {
		s.at = at + time.Duration(i)*gap
		out[i] = s
	}
	return out
}

// What a window feeds to its formula, and when.
func TestWindow(t *testing.T) {
	const ms = time.Millisecond
	const tenMS = 1024 * 9765 // 10 ms in whole units of 1024 ns
	good := sample{latency: 10 * ms, inFlight: 5}
	bad := sample{latency: 10 * ms, inFlight: 5, dropped: true}
	at := func(d time.Duration, s sample) sample { s.at = d; return s }
	for name, tc := range map[string]struct {
		options algorithms.WindowOptions
		samples []sample
		want    []fed
	}{
		"closes after a second with ten samples": {
			samples: many(41, 0, 50*ms, good),
			want:    []fed{{tenMS, 5, false}, {tenMS, 5, false}},
		},
		"too few samples: goes on gathering until there are ten": {
			samples: many(10, 0, 700*ms, good),
			want:    []fed{{tenMS, 5, false}},
		},
		"nine are too few however long it takes": {
			samples: many(9, 0, time.Hour, good),
		},
		"an outage is not waited out": {
			samples: many(3, 0, 600*ms, bad),
			want:    []fed{{tenMS, 5, true}},
		},
		"the highest in flight counts": {
			samples: append(many(19, 0, 50*ms, good), sample{at: time.Second, latency: 10 * ms, inFlight: 9}),
			want:    []fed{{tenMS, 9, false}},
		},
		"one drop in twenty-one is not bad news": {
			samples: append(many(20, 0, 50*ms, good), at(time.Second, bad)),
			want:    []fed{{tenMS, 5, false}},
		},
		"two in twenty are": {
			samples: append(append(many(18, 0, 50*ms, good), at(900*ms, bad)), at(time.Second, bad)),
			want:    []fed{{tenMS, 5, true}},
		},
		"the latency of drops is left out": {
			samples: append(many(18, 0, 50*ms, good), many(4, 950*ms, 20*ms, sample{latency: time.Microsecond, inFlight: 5, dropped: true})...),
			want:    []fed{{tenMS, 5, true}},
		},
		"impossible samples are left out": {
			samples: append(many(20, 0, 50*ms, sample{latency: 0, inFlight: 5}), append(many(20, 0, 50*ms, sample{latency: time.Minute + 1, inFlight: 5}), many(21, 0, 50*ms, good)...)...),
			want:    []fed{{tenMS, 5, false}},
		},
		"a slow backend gets a longer window": {
			options: algorithms.WindowOptions{Max: 10 * time.Second},
			samples: many(61, 0, 100*ms, sample{latency: 2 * time.Second, inFlight: 5}),
			// Closed after 1 s, then after twice the 2 s.
			want: []fed{{1953125 * 1024, 5, false}, {1953125 * 1024, 5, false}},
		},
		"a clock that goes back begins the window again": {
			samples: append(many(5, time.Hour, 50*ms, good), many(21, time.Minute, 50*ms, good)...),
			want:    []fed{{tenMS, 5, false}},
		},
		"a quantile of equal samples is within their bin": {
			options: algorithms.WindowOptions{Quantile: 0.5},
			samples: many(21, 0, 50*ms, sample{latency: 128 * 65536, inFlight: 5}),
			want:    []fed{{128 * (65536 + 4096), 5, false}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			formula := &recorder{limit: 20}
			w := algorithms.NewWindow(formula, tc.options)
			for _, s := range tc.samples {
				w.Observe(int64(s.at), s.latency, s.inFlight, s.dropped)
			}
			if diff := cmp.Diff(tc.want, formula.got); diff != "" {
				t.Errorf("fed to the formula (-want +got):\n%s", diff)
			}
		})
	}
}

// A limit that is never reached does not grow on the peaks of light traffic, and
// one that is reached grows, however little is held on average.
func TestOnlyANeededLimitGrows(t *testing.T) {
	for _, tc := range []struct {
		name  string
		peak  int
		grows bool
	}{{"not reached", 19, false}, {"reached", 20, true}} {
		t.Run(tc.name, func(t *testing.T) {
			w := algorithms.NewWindowedVegas(algorithms.VegasOptions{}, algorithms.WindowOptions{})
			for i := range 200 { // ten seconds of which 0.2 permits are held on average
				w.Observe(int64(i)*int64(50*time.Millisecond), 10*time.Millisecond, tc.peak, false)
			}
			if grew := w.Current() > 20; grew != tc.grows {
				t.Errorf("limit is %d with a peak of %d; want growth above 20: %v", w.Current(), tc.peak, tc.grows)
			}
		})
	}
}

// Bad news of permits granted before the last cut does not cut again: a
// backlog of timeouts is one overload, not many.
func TestOldNewsDoesNotCut(t *testing.T) {
	w := algorithms.NewWindowedAIMD(algorithms.AIMDOptions{InitialLimit: 100}, algorithms.WindowOptions{})
	feed := func(from, to, latency time.Duration) {
		for at := from; at <= to; at += 50 * time.Millisecond {
			w.Observe(int64(at), latency, w.Current(), false)
		}
	}
	feed(0, time.Second, 5*time.Second)
	if got := w.Current(); got != 90 {
		t.Fatalf("Current() = %d after a window over the target; want 90", got)
	}
	feed(1050*time.Millisecond, 5*time.Second, 5*time.Second) // all granted before the cut at 1 s
	if got := w.Current(); got != 90 {
		t.Errorf("Current() = %d after more of the same backlog; want it to stay at 90", got)
	}
	feed(8*time.Second, 10*time.Second, 5*time.Second) // granted after it
	if got := w.Current(); got != 81 {
		t.Errorf("Current() = %d after news of permits granted under the lower limit; want 81", got)
	}
}

// AIMD's target is a share of samples, not the worst of them.
func TestAIMDTarget(t *testing.T) {
	for share, want := range map[int]int{4: 101, 6: 90} { // percent over the target
		w := algorithms.NewWindowedAIMD(algorithms.AIMDOptions{InitialLimit: 100}, algorithms.WindowOptions{})
		for i := range 101 {
			latency := 10 * time.Millisecond
			if i < share {
				latency = time.Second
			}
			w.Observe(int64(i)*int64(10*time.Millisecond), latency, 100, false)
		}
		if got := w.Current(); got != want {
			t.Errorf("Current() = %d with %d %% of samples over the target; want %d", got, share, want)
		}
	}
}

// A fast refusal by the backend is no new baseline. A window of the fastest
// drops once made the baseline microseconds, and every real latency a queue.
func TestDropsDoNotLowerTheBaseline(t *testing.T) {
	for _, kind := range []string{algorithms.KindVegas, algorithms.KindGradient, algorithms.KindGradient2} {
		lim := newLimit(t, kind)
		now := int64(0)
		feed := func(windows int, latency time.Duration, dropped bool) {
			for range windows * 20 {
				now += int64(50 * time.Millisecond)
				lim.Observe(now, latency, lim.Current(), dropped)
			}
		}
		feed(20, 10*time.Millisecond, false)
		before := lim.BaseRTT()
		feed(20, 10*time.Microsecond, true)
		if got := lim.BaseRTT(); got < before*9/10 {
			t.Errorf("%s: BaseRTT() = %v after refusals in 10 us; want the %v of real work", kind, got, before)
		}
	}
}

// The bounds hold for what is enforced, whatever the formula says.
func TestWindowClamps(t *testing.T) {
	for said, want := range map[int]int{0: 1, 1: 1, 500: 500, 1_000_000: 1_000_000, 1_000_001: 20, -5: 20, math.MinInt64: 20} {
		formula := &recorder{limit: 20}
		w := algorithms.NewWindow(formula, algorithms.WindowOptions{})
		formula.limit = said
		for i := range 21 {
			w.Observe(int64(i)*int64(50*time.Millisecond), time.Millisecond, 5, false)
		}
		if got := w.Current(); got != want {
			t.Errorf("Current() = %d when the formula says %d; want %d", got, said, want)
		}
	}
}

// Gradient's probe and its room for a queue may pass its bounds; what is
// enforced does not.
func TestGradientStaysWithinBounds(t *testing.T) {
	w := algorithms.NewWindowedGradient(algorithms.GradientOptions{InitialLimit: 2, MinLimit: 1, MaxLimit: 3}, algorithms.WindowOptions{})
	for i := range 400 {
		w.Observe(int64(i)*int64(50*time.Millisecond), time.Millisecond, w.Current(), false)
		if got := w.Current(); got < 1 || got > 3 {
			t.Fatalf("Current() = %d; want it within [1, 3]", got)
		}
	}
}

// Every sample is counted, once, however many end at a time.
func TestWindowLosesNothing(t *testing.T) {
	const callers, each = 8, 20_000
	for _, quantile := range []float64{-1, 0.1} {
		w := algorithms.NewWindowedVegas(algorithms.VegasOptions{Rand: lcg(1)}, algorithms.WindowOptions{Quantile: quantile})
		w.Observe(0, time.Millisecond, 1, false) // opens the window
		var wg sync.WaitGroup
		for range callers {
			wg.Go(func() {
				for range each {
					w.Observe(1, 10*time.Millisecond, 5, false)
				}
			})
		}
		wg.Wait()
		w.Observe(int64(time.Second), time.Millisecond, 1, false)
		if got, want := w.State()["sample_count"], float64(callers*each+2); got != want {
			t.Errorf("quantile %v: the window had %v samples; want %v", quantile, got, want)
		}
	}
}

// A word of count and sum that fills up closes the window instead of running
// over into each other.
func TestWindowFull(t *testing.T) {
	formula := &recorder{limit: 20}
	w := algorithms.NewWindow(formula, algorithms.WindowOptions{})
	for range 524_288*2 + 10 {
		w.Observe(5, time.Minute, 5, false)
	}
	if len(formula.got) == 0 {
		t.Fatal("no window closed; want it to close when it is full")
	}
	for _, f := range formula.got {
		if off := f.RTT - time.Minute; off > time.Microsecond || off < -2*time.Microsecond {
			t.Errorf("average = %v of samples that all took a minute", f.RTT)
		}
	}
}

// Quantiles are right to the width of a bin, an eighth.
func TestQuantileIsWithinABin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		formula := &recorder{limit: 20}
		q := rapid.SampledFrom([]float64{0.05, 0.5, 0.95}).Draw(t, "quantile")
		w := algorithms.NewWindow(formula, algorithms.WindowOptions{Quantile: q})
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		scale := math.Pow(10, rapid.Float64Range(4, 10).Draw(t, "scale"))
		const n = 1000
		for i := range n {
			// Evenly spread over [scale, 2 scale), so the quantile is known.
			latency := time.Duration(scale * (1 + (float64(random.IntN(1000))+0.5)/1000))
			w.Observe(int64(i), latency, 5, false)
		}
		w.Observe(int64(time.Minute), time.Duration(scale*(1+q)), 5, false)
		want := scale * (1 + q)
		if got := float64(formula.got[0].RTT); math.Abs(got-want) > want/8+128 {
			t.Errorf("quantile %v of [%v, %v) = %v; want %v", q, scale, 2*scale, got, want)
		}
	})
}

// The zero value is the contract's default, and each option is checked.
func TestSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		settings algorithms.Settings
		want     string // in the error, "" for none
		limit    int
	}{
		"zero":           {algorithms.Settings{}, "", 20},
		"fixed":          {algorithms.Settings{Algorithm: "fixed", Keys: algorithms.Keys{Limit: 7}}, "", 7},
		"aimd":           {algorithms.Settings{Algorithm: "aimd"}, "", 20},
		"knee":           {algorithms.Settings{Algorithm: "knee"}, "", 20},
		"vegas":          {algorithms.Settings{Algorithm: "vegas"}, "", 20},
		"gradient":       {algorithms.Settings{Algorithm: "gradient"}, "", 20},
		"gradient2":      {algorithms.Settings{Algorithm: "gradient2"}, "", 20},
		"low knee":       {algorithms.Settings{Algorithm: "knee", Keys: algorithms.Keys{MaxLimit: 10}}, "", 10},
		"low aimd":       {algorithms.Settings{Algorithm: "aimd", Keys: algorithms.Keys{MaxLimit: 10}}, "", 10},
		"low vegas":      {algorithms.Settings{Algorithm: "vegas", Keys: algorithms.Keys{MaxLimit: 10}}, "", 10},
		"low gradient":   {algorithms.Settings{Algorithm: "gradient", Keys: algorithms.Keys{MaxLimit: 10}}, "", 10},
		"low gradient2":  {algorithms.Settings{Algorithm: "gradient2", Keys: algorithms.Keys{MaxLimit: 10}}, "", 10},
		"high knee":      {algorithms.Settings{Algorithm: "knee", Keys: algorithms.Keys{MinLimit: 50}}, "", 50},
		"high aimd":      {algorithms.Settings{Algorithm: "aimd", Keys: algorithms.Keys{MinLimit: 50}}, "", 50},
		"high gradient":  {algorithms.Settings{Algorithm: "gradient", Keys: algorithms.Keys{MinLimit: 50}}, "", 50},
		"high gradient2": {algorithms.Settings{Algorithm: "gradient2", Keys: algorithms.Keys{MinLimit: 50}}, "", 50},
		"unknown":        {algorithms.Settings{Algorithm: "bbr"}, "(bbr)", 0},
		"negative":       {algorithms.Settings{Keys: algorithms.Keys{Limit: -1}}, "limit must be in [1, 1000000] (-1)", 0},
		"backoff":        {algorithms.Settings{Algorithm: "aimd", Keys: algorithms.Keys{BackoffRatio: 1}}, "backoffRatio must be in [0.5, 1) (1)", 0},
		"timeout":        {algorithms.Settings{Algorithm: "aimd", Keys: algorithms.Keys{RequestTimeout: -1}}, "requestTimeout must be > 0", 0},
		"min > max":      {algorithms.Settings{Algorithm: "gradient", Keys: algorithms.Keys{MinLimit: 30, MaxLimit: 25}}, "maxLimit must be in [30, 1000000] (25)", 0},
		"initial":        {algorithms.Settings{Algorithm: "gradient2", Keys: algorithms.Keys{InitialLimit: 201}}, "initialLimit must be in [1, 200] (201)", 0},
		"written":        {algorithms.Settings{Algorithm: "knee", Keys: algorithms.Keys{InitialLimit: 20, MaxLimit: 10}}, "initialLimit must be in [1, 10] (20)", 0},
		"tolerance":      {algorithms.Settings{Algorithm: "gradient2", Keys: algorithms.Keys{RTTTolerance: 0.9}}, "rttTolerance must be in [1, 1000] (0.9)", 0},
		"NaN":            {algorithms.Settings{Algorithm: "gradient", Keys: algorithms.Keys{RTTTolerance: math.NaN()}}, "rttTolerance", 0},
		"beta":           {algorithms.Settings{Algorithm: "vegas", Keys: algorithms.Keys{Alpha: 6}}, "beta must be in [7, 1000000] (6)", 0},
		"window":         {algorithms.Settings{Algorithm: "vegas", Window: algorithms.WindowOptions{Min: 2 * time.Second, Max: time.Second}}, "max must be in [2s, 1h0m0s] (1s)", 0},
		"samples":        {algorithms.Settings{Algorithm: "vegas", Window: algorithms.WindowOptions{Samples: -1}}, "samples must be in", 0},
	} {
		t.Run(name, func(t *testing.T) {
			lim, err := algorithms.New(tc.settings)
			switch {
			case tc.want == "" && err != nil:
				t.Fatalf("New: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Fatalf("New: error %v; want one with %q", err, tc.want)
			case tc.want != "":
				return
			}
			if got := lim.Current(); got != tc.limit {
				t.Errorf("Current() = %d; want %d", got, tc.limit)
			}
			if want := lim.State()["limit"]; want != float64(tc.limit) {
				t.Errorf("State()[limit] = %v; want %d", want, tc.limit)
			}
		})
	}
}

// Listeners hear of changes only, and may ask for the limit while they do.
func TestListeners(t *testing.T) {
	a := algorithms.NewAIMD(algorithms.AIMDOptions{InitialLimit: 10, MaxLimit: 11})
	var heard []int
	a.NotifyOnChange(func(limit int) { heard = append(heard, limit, a.EstimatedLimit()) })
	for range 3 {
		a.OnSample(0, int64(time.Millisecond), 10, false)
	}
	a.OnSample(0, int64(time.Millisecond), 10, true)
	if diff := cmp.Diff([]int{11, 11, 9, 9}, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
}

// A probe measures the baseline anew, at times that the injected source
// decides, so that a run can be repeated.
func TestProbesAreReproducible(t *testing.T) {
	run := func(seed uint64) []int {
		v := algorithms.NewVegas(algorithms.VegasOptions{Rand: lcg(seed)})
		g := algorithms.NewGradient(algorithms.GradientOptions{Rand: lcg(seed)})
		var limits []int
		random := rand.New(rand.NewPCG(1, 1))
		for range 5000 {
			rtt := int64(10_000_000 + random.IntN(10_000_000))
			v.OnSample(0, rtt, 50, false)
			g.OnSample(0, rtt, 2000, false)
			limits = append(limits, v.EstimatedLimit(), g.EstimatedLimit())
		}
		return limits
	}
	if diff := cmp.Diff(run(1), run(1)); diff != "" {
		t.Errorf("two runs from one seed differ:\n%s", diff)
	}
	if cmp.Equal(run(1), run(2)) {
		t.Error("runs from two seeds are the same: no probe happened")
	}
}
