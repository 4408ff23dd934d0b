package observe_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// door answers with a fixed status.
type door ingress.Status

func (d door) Status() ingress.Status { return ingress.Status(d) }

// learner is a limit that tells everything about itself.
type learner struct{}

func (learner) Current() int                            { return 3 }
func (learner) Observe(int64, time.Duration, int, bool) {}
func (learner) Algorithm() string                       { return "vegas" }
func (learner) BaseRTT() time.Duration                  { return 20 * time.Millisecond }
func (learner) State() map[string]float64               { return map[string]float64{"queue": 2, "windows_total": 3} }

// backends returns the health of two backends: one is dead, nobody asked the other.
func backends(t *testing.T) observe.BackendReader {
	t.Helper()
	h := ingress.NewHealth("db:1", "db:2")
	for range 3 {
		h.Of("db:1").Failed(ingress.Silent, errors.New("no answer"))
	}
	return func() []ingress.BackendStatus { return h.Status(time.Now().Add(time.Minute)) }
}

// house returns metrics over one gate with the partition checkout, after it
// admitted five requests, refused one for concurrency and one for its rate.
func house(t *testing.T) (*observe.Metrics, *limiter.Gate) {
	t.Helper()
	m := observe.New(observe.Options{Version: "1.2.3"})
	gate := limiter.New("orders", &limiter.Policy{
		Classes: &limiter.Classes{},
		Rate:    limiter.Rate{PerSecond: 1000},
		Named: []limiter.PartitionPolicy{{
			Name: "checkout", NewLimit: func() limiter.Limit { return learner{} },
			Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 5000},
		}},
	}, limiter.Options{Observer: m.Gate("orders")})
	m.Watch("orders", gate)
	m.WatchDoor("orders", door{
		Open: 7, Accepted: 9, Refused: []uint64{0, 4}, Tokens: 2.5,
		Responses: []uint64{90, 0, 0, 7}, Attempts: []uint64{9, 2}, Invalid: []ingress.InvalidCount{{Status: 413, Count: 3}, {Count: 1}},
	})
	m.WatchBackends("orders", backends(t))
	m.WatchLimits(func() []observe.LimitChanges { return []observe.LimitChanges{{"orders", "default", "queue", 3}} })
	m.WatchClock(func() observe.ClockState {
		return observe.ClockState{Trusted: true, Faults: map[string]uint64{"frozen": 2}}
	})
	m.Reloaded(true, time.Unix(1_700_000_000, 0))
	for _, o := range []limiter.Outcome{limiter.Success, limiter.Dropped, limiter.Ignored} {
		permit, err := gate.Admit(t.Context(), limiter.Request{Key: "checkout"})
		if err != nil {
			t.Fatalf("Admit: %v", err)
		}
		permit.EndSampled(30*time.Millisecond, o)
	}
	hold := []limiter.Permit{admit(t, gate, "checkout"), admit(t, gate, "checkout")}
	_, err := gate.Admit(t.Context(), limiter.Request{Key: "checkout"})
	rej, ok := errors.AsType[*limiter.Rejection](err)
	if !ok {
		t.Fatalf("Admit beyond the bucket: %v; want a rejection", err)
	}
	rej.Hint(limiter.Request{})
	t.Cleanup(func() {
		for i := range hold {
			hold[i].End(limiter.Success)
		}
	})
	return m, gate
}

func admit(t *testing.T, g *limiter.Gate, key string) limiter.Permit {
	t.Helper()
	p, err := g.Admit(t.Context(), limiter.Request{Key: key})
	if err != nil {
		t.Fatalf("Admit(%q): %v", key, err)
	}
	return p
}

// gather returns all families by name.
func gather(t *testing.T, m *observe.Metrics) map[string]*dto.MetricFamily {
	t.Helper()
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	byName := map[string]*dto.MetricFamily{}
	for _, f := range families {
		byName[f.GetName()] = f
	}
	return byName
}

// series renders a family as sorted lines "label=value,… number".
func series(f *dto.MetricFamily) []string {
	lines := make([]string, 0, len(f.GetMetric()))
	for _, m := range f.GetMetric() {
		pairs := make([]string, 0, len(m.GetLabel()))
		for _, l := range m.GetLabel() {
			pairs = append(pairs, l.GetName()+"="+l.GetValue())
		}
		value := m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		lines = append(lines, fmt.Sprintf("%s %g", strings.Join(pairs, ","), value))
	}
	slices.Sort(lines)
	return lines
}

// Before anything happened, a scrape works too.
func TestScrapeOfNothing(t *testing.T) {
	w := httptest.NewRecorder()
	observe.New(observe.Options{}).Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "admitd_build_info") {
		t.Errorf("scrape = %d %s; want the build at least", w.Code, w.Body)
	}
}

// The names, types and labels that users and scripts rely on.
func TestContract(t *testing.T) {
	m, _ := house(t)
	got := gather(t, m)
	for name, want := range map[string]struct {
		kind   dto.MetricType
		labels string
	}{
		"admitd_requests_received_total":                      {dto.MetricType_COUNTER, "ingress partition"},
		"admitd_requests_admitted_total":                      {dto.MetricType_COUNTER, "ingress partition"},
		"admitd_requests_rejected_total":                      {dto.MetricType_COUNTER, "ingress limit partition reason"},
		"admitd_requests_abandoned_total":                     {dto.MetricType_COUNTER, "ingress partition"},
		"admitd_requests_exempted_total":                      {dto.MetricType_COUNTER, "ingress"},
		"admitd_request_duration_seconds":                     {dto.MetricType_HISTOGRAM, "ingress outcome partition"},
		"admitd_concurrency_limit":                            {dto.MetricType_GAUGE, "algorithm ingress partition"},
		"admitd_requests_in_flight":                           {dto.MetricType_GAUGE, "ingress partition"},
		"admitd_base_rtt_seconds":                             {dto.MetricType_GAUGE, "ingress partition"},
		"admitd_bucket_tokens":                                {dto.MetricType_GAUGE, "bucket ingress"},
		"admitd_connections_open":                             {dto.MetricType_GAUGE, "ingress"},
		"admitd_connections_accepted_total":                   {dto.MetricType_COUNTER, "ingress"},
		"admitd_connections_rejected_total":                   {dto.MetricType_COUNTER, "ingress reason"},
		"admitd_limit_changes_total":                          {dto.MetricType_COUNTER, "ingress partition why"},
		"admitd_backend_responses_total":                      {dto.MetricType_COUNTER, "class ingress"},
		"admitd_request_attempts_total":                       {dto.MetricType_COUNTER, "attempt ingress"},
		"admitd_requests_invalid_total":                       {dto.MetricType_COUNTER, "ingress status"},
		"admitd_requests_unheard_total":                       {dto.MetricType_COUNTER, "ingress partition"},
		"admitd_backend_up":                                   {dto.MetricType_GAUGE, "backend ingress"},
		"admitd_backend_failures_total":                       {dto.MetricType_COUNTER, "backend cause ingress"},
		"admitd_clock_trusted":                                {dto.MetricType_GAUGE, ""},
		"admitd_fallback_active":                              {dto.MetricType_GAUGE, "ingress"},
		"admitd_config_last_reload_successful":                {dto.MetricType_GAUGE, ""},
		"admitd_config_last_reload_success_timestamp_seconds": {dto.MetricType_GAUGE, ""},
		"admitd_build_info":                                   {dto.MetricType_GAUGE, "goversion version"},
	} {
		f := got[name]
		if f == nil {
			t.Errorf("%s is not exposed", name)
			continue
		}
		if f.GetType() != want.kind {
			t.Errorf("%s is a %v; want %v", name, f.GetType(), want.kind)
		}
		for _, metric := range f.GetMetric() {
			var names []string
			for _, l := range metric.GetLabel() {
				names = append(names, l.GetName())
			}
			if have := strings.Join(names, " "); have != want.labels {
				t.Errorf("%s has labels %q; want %q", name, have, want.labels)
			}
		}
	}
}

// Every value is the one that the gate counted.
func TestValues(t *testing.T) {
	m, gate := house(t)
	got := gather(t, m)
	for name, want := range map[string]string{
		"admitd_requests_received_total":                      "ingress=orders,partition=checkout 6",
		"admitd_requests_admitted_total":                      "ingress=orders,partition=checkout 5",
		"admitd_requests_rejected_total":                      "ingress=orders,limit=partition,partition=checkout,reason=request_rate 1",
		"admitd_request_duration_seconds":                     "ingress=orders,outcome=dropped,partition=checkout 1",
		"admitd_permits_ended_total":                          "ingress=orders,outcome=ignored,partition=checkout 1",
		"admitd_concurrency_limit":                            "algorithm=vegas,ingress=orders,partition=checkout 3",
		"admitd_requests_in_flight":                           "ingress=orders,partition=checkout 2",
		"admitd_base_rtt_seconds":                             "ingress=orders,partition=checkout 0.02",
		"admitd_algorithm_state":                              "ingress=orders,partition=checkout,state=queue 2",
		"admitd_algorithm_events_total":                       "event=windows,ingress=orders,partition=checkout 3",
		"admitd_bucket_tokens":                                "bucket=connections,ingress=orders 2.5",
		"admitd_connections_open":                             "ingress=orders 7",
		"admitd_connections_accepted_total":                   "ingress=orders 9",
		"admitd_connections_rejected_total":                   "ingress=orders,reason=max_open 4",
		"admitd_limit_changes_total":                          "ingress=orders,partition=default,why=queue 3",
		"admitd_backend_responses_total":                      "class=5xx,ingress=orders 7",
		"admitd_request_attempts_total":                       "attempt=retry,ingress=orders 2",
		"admitd_requests_invalid_total":                       "ingress=orders,status=other 1",
		"admitd_requests_unheard_total":                       "ingress=orders,partition=checkout 0",
		"admitd_backend_up":                                   "backend=db:1,ingress=orders 0",
		"admitd_backend_failures_total":                       "backend=db:1,cause=timeout,ingress=orders 3",
		"admitd_clock_trusted":                                " 1",
		"admitd_clock_faults_total":                           "kind=frozen 2",
		"admitd_ingress_mode":                                 "ingress=orders,mode=enforce 1",
		"admitd_config_reloads_total":                         "result=success 1",
		"admitd_config_last_reload_success_timestamp_seconds": " 1.7e+09",
	} {
		if lines := series(got[name]); !slices.Contains(lines, want) {
			t.Errorf("%s = %q; want a line %q", name, lines, want)
		}
	}
	hint := "ingress=orders " + strconv.FormatFloat(gate.Status().LastHint.Seconds(), 'g', -1, 64)
	if lines := series(got["admitd_last_retry_hint_seconds"]); !slices.Equal(lines, []string{hint}) {
		t.Errorf("hints = %q; want %q", lines, hint)
	}
}

// The buckets of a partition that the configuration names appear under its
// name.
func TestPartitionBucket(t *testing.T) {
	m, _ := house(t)
	lines := series(gather(t, m)["admitd_bucket_tokens"])
	if !slices.ContainsFunc(lines, func(l string) bool { return strings.HasPrefix(l, "bucket=partition/checkout,ingress=orders") }) {
		t.Errorf("bucket tokens = %q; want partition/checkout among them", lines)
	}
}

// What the Prometheus project's own linter says of our names, types and help.
func TestPromlint(t *testing.T) {
	m, _ := house(t)
	// Joining checks what a registry would have checked: no series twice, no
	// family with two types or helps, labels sorted and valid.
	families, err := prometheus.Gatherers{m.Gatherer()}.Gather()
	if err != nil {
		t.Fatalf("Gather: %v", err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatalf("Lint: %v", err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// A million clients' keys leave the number of series as two keys make it.
func TestCardinalityIsConstant(t *testing.T) {
	keys := 1_000_000
	if testing.Short() || raceEnabled {
		keys = 50_000
	}
	m, gate := house(t)
	count := func() (n int) {
		for _, f := range gather(t, m) {
			n += len(f.GetMetric())
		}
		return n
	}
	var before int
	for i := range keys {
		if i == 2 {
			before = count()
		}
		p, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: fmt.Sprintf("tenant-%d", i), Exempt: true})
		if err != nil {
			t.Fatalf("TryAdmit: %v", err)
		}
		p.End(limiter.Success)
	}
	// The keys beyond the bound end under "overflow", which is one more series
	// of latencies and of permits ended.
	if after := count(); after > before+2 {
		t.Errorf("%d series after %d keys; want the %d of two keys and two of overflow", after, keys, before)
	}
	for name, f := range gather(t, m) {
		for _, line := range series(f) {
			if strings.Contains(line, "tenant-") {
				t.Errorf("%s exposes a client's key: %s", name, line)
			}
		}
	}
}

// A permit that was copied and ended by both is counted.
func TestEndedTwice(t *testing.T) {
	m := observe.New(observe.Options{})
	gate := limiter.New("s", &limiter.Policy{}, limiter.Options{EndedTwice: func(string) {}})
	t.Cleanup(m.Watch("s", gate))
	p := admit(t, gate, "")
	other := p
	p.End(limiter.Success)
	p.End(limiter.Success)
	if d := cmp.Diff([]string{"ingress=s 0"}, series(gather(t, m)["admitd_permits_ended_twice_total"])); d != "" {
		t.Errorf("ended twice by itself (-want +got):\n%s", d)
	}
	other.End(limiter.Success)
	if d := cmp.Diff([]string{"ingress=s 1"}, series(gather(t, m)["admitd_permits_ended_twice_total"])); d != "" {
		t.Errorf("ended by a copy (-want +got):\n%s", d)
	}
}

// Counters of an exempt or shadowed request appear where they belong.
func TestShadowAndExempt(t *testing.T) {
	m := observe.New(observe.Options{})
	gate := limiter.New("s", &limiter.Policy{Mode: limiter.Shadow, Rate: limiter.Rate{PerSecond: 0.001}}, limiter.Options{})
	stop := m.Watch("s", gate)
	for range 3 {
		p := admit(t, gate, "")
		p.End(limiter.Success)
	}
	p, err := gate.Admit(t.Context(), limiter.Request{Exempt: true})
	if err != nil {
		t.Fatalf("Admit: %v", err)
	}
	p.End(limiter.Success)
	got := gather(t, m)
	if d := cmp.Diff([]string{"ingress=s,limit=ingress,partition=default,reason=request_rate 2"}, series(got["admitd_requests_would_reject_total"])); d != "" {
		t.Errorf("would reject (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"ingress=s 1"}, series(got["admitd_requests_exempted_total"])); d != "" {
		t.Errorf("exempted (-want +got):\n%s", d)
	}
	stop()
	if got := gather(t, m); got["admitd_requests_exempted_total"] != nil {
		t.Error("a gate that is no longer watched is still exposed")
	}
}

// Stopping an old gate of the same name must not hide the new one.
func TestWatchReplaced(t *testing.T) {
	m := observe.New(observe.Options{})
	stopOld := m.Watch("a", limiter.New("a", &limiter.Policy{Total: 1}, limiter.Options{}))
	m.Watch("a", limiter.New("a", &limiter.Policy{Total: 2}, limiter.Options{}))
	stopOld()
	if d := cmp.Diff([]string{"ingress=a 2"}, series(gather(t, m)["admitd_permits_total_limit"])); d != "" {
		t.Errorf("total (-want +got):\n%s", d)
	}
}

// Classic buckets for every scraper, native ones and exemplars for those who
// can read them.
func TestFormats(t *testing.T) {
	m, _ := house(t)
	m.Exemplar("orders", "checkout", limiter.Success, 30*time.Millisecond, "4bf92f3577b34da6a3ce929d0e0e4736")
	m.Exemplar("orders", "checkout", limiter.Success, 31*time.Second, "00f067aa0ba902b7")
	m.Exemplar("orders", "never-seen", limiter.Success, time.Second, "x")
	m.Exemplar("orders", "checkout", limiter.Success, time.Second, strings.Repeat("x", 65))
	scrape := func(accept string) string {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		req.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		m.Handler().ServeHTTP(w, req)
		if w.Code != http.StatusOK {
			t.Fatalf("scrape: %d %s", w.Code, w.Body)
		}
		body, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatalf("read: %v", err)
		}
		return string(body)
	}
	text := scrape("text/plain")
	if !strings.Contains(text, `admitd_request_duration_seconds_bucket{ingress="orders",outcome="success",partition="checkout",le="0.05"} 1`) {
		t.Errorf("text format has no classic bucket:\n%s", text)
	}
	open := scrape("application/openmetrics-text; version=1.0.0")
	for _, want := range []string{
		`le="0.035"} 1 # {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.03`,
		`le="+Inf"} 1 # {trace_id="00f067aa0ba902b7"} 31`,
	} {
		if !strings.Contains(open, want) {
			t.Errorf("OpenMetrics has no %s:\n%s", want, open)
		}
	}
	if n := strings.Count(open, "trace_id"); n != 2 {
		t.Errorf("%d exemplars; want 2", n)
	}
	for _, metric := range gather(t, m)["admitd_request_duration_seconds"].GetMetric() {
		if len(metric.GetHistogram().GetPositiveSpan()) == 0 {
			t.Error("no native buckets")
		}
	}
}

// Names that are not UTF-8 must not cost the whole scrape.
func TestInvalidUTF8(t *testing.T) {
	m := observe.New(observe.Options{})
	gate := limiter.New("x\xff", &limiter.Policy{}, limiter.Options{Observer: m.Gate("x\xff")})
	m.Watch("x\xff", gate)
	p := admit(t, gate, "")
	p.End(limiter.Success)
	if lines := series(gather(t, m)["admitd_request_duration_seconds"]); len(lines) != 1 || !strings.Contains(lines[0], "\uFFFD") {
		t.Errorf("series = %q; want one with the replacement character", lines)
	}
}

// A partition that was rejected everywhere adds up: what was received is what
// was admitted, rejected or gave up.
func TestReceivedAddsUp(t *testing.T) {
	_, gate := house(t)
	for _, l := range gate.Status().Labels {
		var rejected uint64
		for _, reason := range labels.Reasons() {
			rejected += l.Counts.Rejected[reason]
		}
		if got, want := l.Counts.Received(), l.Counts.Admitted+l.Counts.GaveUp+rejected; got != want {
			t.Errorf("%s: received %d; want %d", l.Label, got, want)
		}
	}
}

// talker tells as much of its inner state as the most talkative algorithm.
type talker struct{ learner }

func (talker) State() map[string]float64 {
	state := make(map[string]float64, 15)
	for i := range 15 {
		state[stateNames[i]] = float64(i) / 3
	}
	return state
}

var stateNames = [15]string{
	"base_rtt_seconds", "ceiling", "discarded_samples_total", "enforced_limit", "faults_total", "floor", "gradient", "limit",
	"remeasured_total", "sample_bad_fraction", "sample_count", "sample_peak_in_flight", "sample_rtt_seconds",
	"stale_samples_total", "windows_total",
}

// thousand returns metrics over 1,000 named partitions that have all served.
func thousand(tb testing.TB) *observe.Metrics {
	tb.Helper()
	m := observe.New(observe.Options{Process: true})
	policy := &limiter.Policy{}
	for i := range 1000 {
		policy.Named = append(policy.Named, limiter.PartitionPolicy{
			Name: fmt.Sprintf("tenant-%03d", i), NewLimit: func() limiter.Limit { return talker{} },
		})
	}
	gate := limiter.New("orders", policy, limiter.Options{Observer: m.Gate("orders")})
	m.Watch("orders", gate)
	for _, p := range policy.Named {
		for range 3 {
			permit, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: p.Name})
			if err != nil {
				tb.Fatalf("TryAdmit: %v", err)
			}
			permit.EndSampled(30*time.Millisecond, limiter.Success)
		}
	}
	return m
}

// A scrape of 1,000 named partitions takes under 50 ms.
func TestScrapeOfThousandPartitions(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("measures time: set ADMITD_BENCH=1, on a quiet machine")
	}
	m := thousand(t)
	best := time.Duration(math.MaxInt64)
	for range 20 { // the best of several, since other work may share the machine
		w := httptest.NewRecorder()
		w.Body.Grow(16 << 20) // what is measured is the scrape, not this buffer
		start := time.Now()
		m.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		best = min(best, time.Since(start))
		if n := strings.Count(w.Body.String(), "admitd_requests_in_flight{"); n != 1002 {
			t.Fatalf("scrape shows %d partitions; want 1002", n)
		}
	}
	if best > 50*time.Millisecond {
		t.Errorf("best of twenty scrapes took %v; want at most 50ms", best)
	}
}

// discard is a ResponseWriter that takes everything at once, as a socket's
// buffers would.
type discard struct{ header http.Header }

func (d discard) Header() http.Header       { return d.header }
func (discard) WriteHeader(int)             {}
func (discard) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkScrapeThousandPartitions(b *testing.B) {
	h := thousand(b).Handler()
	b.ReportAllocs()
	for b.Loop() {
		w := discard{http.Header{}}
		h.ServeHTTP(w, httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/metrics", http.NoBody))
	}
}

func BenchmarkEnded(b *testing.B) {
	r := observe.New(observe.Options{}).Gate("orders").Recorder("checkout")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r.Ended(3*time.Millisecond, limiter.Success)
		}
	})
}

// Recording a latency allocates nothing.
func TestEndedAllocatesNothing(t *testing.T) {
	r := observe.New(observe.Options{}).Gate("orders").Recorder("checkout")
	r.Ended(time.Millisecond, limiter.Success)
	if n := testing.AllocsPerRun(1000, func() { r.Ended(time.Millisecond, limiter.Success) }); n != 0 {
		t.Errorf("Ended allocates %v times; want 0", n)
	}
}

// In OpenMetrics a counter's family is named without _total, and no two families have one
// name: strict parsers refuse the whole scrape otherwise.
func TestFamiliesHaveOneNameEach(t *testing.T) {
	m := observe.New(observe.Options{Process: true})
	families, err := m.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, f := range families {
		name := strings.TrimSuffix(f.GetName(), "_total")
		if other := seen[name]; other != "" {
			t.Errorf("%s and %s are one family in OpenMetrics", other, f.GetName())
		}
		seen[name] = f.GetName()
	}
	if len(seen) < 20 {
		t.Errorf("%d families; want those of the process", len(seen))
	}
}
