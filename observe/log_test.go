package observe_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/observe"
)

// Each format writes its own form; the level can change while it runs.
func TestNewLogger(t *testing.T) {
	for format, want := range map[string]string{
		"":     `"msg":"hello"`,
		"json": `"msg":"hello"`,
		"text": `msg=hello`,
	} {
		var out bytes.Buffer
		log, level, err := observe.NewLogger(&out, observe.LogOptions{Format: format, Level: "warn"})
		if err != nil {
			t.Fatalf("NewLogger(%q): %v", format, err)
		}
		log.Info("unseen")
		level.Set(slog.LevelInfo)
		log.Info("hello")
		if got := out.String(); !strings.Contains(got, want) || strings.Contains(got, "unseen") {
			t.Errorf("format %q wrote %q; want %s and not what is below the level", format, got, want)
		}
	}
}

// A duration reads the same in both formats. In JSON it was a number of
// nanoseconds without a unit.
func TestNewLoggerWordsDurations(t *testing.T) {
	for format, want := range map[string]string{"json": `"delay":"1.5s"`, "text": `delay=1.5s`} {
		var out bytes.Buffer
		log, _, err := observe.NewLogger(&out, observe.LogOptions{Format: format})
		if err != nil {
			t.Fatalf("NewLogger(%q): %v", format, err)
		}
		log.Info("serving on", slog.Duration("delay", 1500*time.Millisecond))
		if got := out.String(); !strings.Contains(got, want) {
			t.Errorf("format %q wrote %q; want %s", format, got, want)
		}
	}
}

// A wrong option is named in the error.
func TestNewLoggerRefuses(t *testing.T) {
	for _, tc := range []struct {
		o    observe.LogOptions
		want string
	}{
		{observe.LogOptions{Format: "xml"}, `"xml"`},
		{observe.LogOptions{Level: "loud"}, `"loud"`},
	} {
		if _, _, err := observe.NewLogger(&bytes.Buffer{}, tc.o); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("NewLogger(%+v): err = %v; want one naming %s", tc.o, err, tc.want)
		}
	}
}

// However many requests are refused, there is one line per interval, with the
// rates of that interval, and one when it is over.
func TestSummary(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := limiter.New("orders", &limiter.Policy{
			Named: []limiter.PartitionPolicy{
				{Name: "greedy", Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 2000}},
				{Name: "modest", Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 1000}},
			},
		}, limiter.Options{})
		var out bytes.Buffer
		summary := &observe.Summary{
			Log:      slog.New(slog.NewJSONHandler(&out, nil)),
			Interval: 10 * time.Second,
			Gates:    func() []observe.StatusReader { return []observe.StatusReader{gate} },
		}
		go summary.Run(t.Context())
		synctest.Wait()
		try := func(key string, n int) {
			for range n {
				if p, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: key}); err == nil {
					p.End(limiter.Success)
				}
			}
		}
		try("greedy", 1002) // 2 admitted
		try("modest", 101)  // 1 admitted
		<-time.After(10*time.Second + time.Millisecond)
		synctest.Wait()
		<-time.After(30 * time.Second)
		synctest.Wait()

		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 2 {
			t.Fatalf("%d lines after 1,100 rejections and three quiet intervals; want 2:\n%s", len(lines), out.String())
		}
		var first struct {
			Msg      string             `json:"msg"`
			Ingress  string             `json:"ingress"`
			Rejected float64            `json:"rejected_per_second"`
			Admitted float64            `json:"admitted_per_second"`
			Reasons  map[string]float64 `json:"reasons"`
			Worst    string             `json:"most_rejected_partition"`
			Most     float64            `json:"most_rejected_per_second"`
		}
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil {
			t.Fatalf("line %q: %v", lines[0], err)
		}
		if first.Ingress != "orders" || first.Rejected != 110 || first.Admitted != 0.3 ||
			first.Reasons["request_rate"] != 110 || first.Worst != "greedy" || first.Most != 100 {
			t.Errorf("first line = %+v; want orders rejecting 110/s for request_rate, greedy most with 100/s", first)
		}
		if !strings.Contains(lines[1], "no more rejections") {
			t.Errorf("second line = %s; want the end of the rejections", lines[1])
		}
	})
}

// 240 uploads that were too large were in no line of the log.
func TestSummaryOfInvalidRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var invalid atomic.Pointer[[]ingress.InvalidCount]
		invalid.Store(&[]ingress.InvalidCount{{Status: 400, Count: 7}})
		summary := &observe.Summary{
			Log:   slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{ReplaceAttr: withoutTime})),
			Gates: func() []observe.StatusReader { return nil },
			Doors: func() map[string]ingress.Status {
				return map[string]ingress.Status{"orders": {Invalid: *invalid.Load()}}
			},
		}
		go summary.Run(t.Context())
		synctest.Wait()
		invalid.Store(&[]ingress.InvalidCount{{Status: 400, Count: 8}, {Status: 413, Count: 240}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want := `{"level":"INFO","msg":"answering invalid requests","ingress":"orders","invalid_per_second":24.1,"statuses":{"400":0.1,"413":24}}` + "\n"
		if got := out.String(); got != want {
			t.Errorf("log %s; want %s", got, want)
		}
	})
}

// withoutTime leaves out when a line was written.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
