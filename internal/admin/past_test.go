package admin_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// movable is a limit that a test moves.
type movable struct{ limit *int }

func (m movable) Current() int                          { return *m.limit }
func (movable) Observe(int64, time.Duration, int, bool) {}
func (movable) Why() string                             { return "queue" }
func (movable) BaseRTT() time.Duration                  { return 5 * time.Millisecond }

// played returns a server after seconds in which each of three requests of one
// tenant was answered in 20 ms, while its limit fell from 20 to 12.
func played(t *testing.T, seconds int) *admin.Server {
	t.Helper()
	limit := 20
	d := newDaemon(&limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return movable{&limit} }}})
	s := newServer(t, d, admin.Options{})
	for i := range seconds {
		s.Beat(time.Now())
		for range 3 {
			p, err := d.gate.Admit(t.Context(), limiter.Request{Key: "tenant-7"})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Millisecond)
			p.End(limiter.Success)
		}
		time.Sleep(940 * time.Millisecond)
		if i == 2 {
			limit = 12
		}
	}
	s.Beat(time.Now())
	return s
}

func answerOf[T any](t *testing.T, s http.Handler, path string, code int) (out T) {
	t.Helper()
	w := call{method: http.MethodGet, path: path}.do(t, s)
	if w.Code != code {
		t.Fatalf("GET %s = %d %s; want %d", path, w.Code, w.Body, code)
	}
	if code == http.StatusOK {
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
			t.Fatalf("GET %s: %v", path, err)
		}
	}
	return out
}

// "Why is the limit 12?" has an answer: one that a person can read, the changes
// that led there, and what the baseline is and when it was learned.
func TestExplain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := played(t, 10)
		e := answerOf[status.Explanation](t, s, "/v1/explain/orders/tenant-7", http.StatusOK)
		want := "The limit of tenant-7 is 12, with 0 in flight. It was lowered from 20 to 12 7 s ago, because requests waited at the backend. " +
			"Without load the backend takes 5.00 ms: learned 9 s ago, with 0 in flight."
		if e.Text != want {
			t.Errorf("text %q\nwant %q", e.Text, want)
		}
		if len(e.Changes) != 1 || e.Changes[0].From != 20 || e.Changes[0].To != 12 || e.Changes[0].Why != "queue" || e.Changes[0].Meaning == "" {
			t.Errorf("changes %+v", e.Changes)
		}
		if e.Baseline == nil || e.Baseline.MS != 5 {
			t.Errorf("baseline %+v", e.Baseline)
		}
		if n := s.LimitChanges(); len(n) != 2 || n[0].Partition != "default" || n[0].Why != "queue" || n[0].Count != 2 {
			t.Errorf("counted %+v; want tenant-7 and default itself under default, and overflow", n)
		}
		if e := answerOf[status.Explanation](t, s, "/v1/explain/orders", http.StatusOK); e.Partition != limiter.DefaultPartition {
			t.Errorf("without a key: %+v", e)
		}
		answerOf[any](t, s, "/v1/explain/orders/nobody", http.StatusNotFound)
		answerOf[any](t, s, "/v1/explain/nothing/tenant-7", http.StatusNotFound)
	})
}

// The last half hour is kept, so that who opens the page late sees it.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := played(t, 40*60)
		h := answerOf[status.History](t, s, "/v1/history", http.StatusOK)["orders"]
		if len(h.At) < 1799 || len(h.At) > 1800 {
			t.Errorf("%d seconds are kept, want 30 min", len(h.At))
		}
		last := len(h.At) - 1
		for name, want := range map[string]float64{"admitted": 3, "limit": 12, "rtt": 20, "base": 5} {
			if v := h.Columns[name]; v == nil || v[last] == nil || *v[last] != want {
				t.Errorf("column %s ends with %v, want %v", name, show(v), want)
			}
		}
		if v := h.Partitions["tenant-7"].Columns["admitted"]; v == nil || *v[len(v)-1] != 3 {
			t.Errorf("tenant-7: %v", show(v))
		}
		if h := answerOf[status.History](t, s, "/v1/history?since=10s&ingress=orders", http.StatusOK)["orders"]; len(h.At) != 10 {
			t.Errorf("of the last 10 s there are %d", len(h.At))
		}
		answerOf[any](t, s, "/v1/history?since=yesterday", http.StatusBadRequest)
		answerOf[any](t, s, "/v1/history?ingress=nothing", http.StatusNotFound)
	})
}

// show is the end of a column.
func show(v []*float64) any {
	if len(v) == 0 || v[len(v)-1] == nil {
		return nil
	}
	return *v[len(v)-1]
}

// What GET /v1/ lists is what there is.
func TestEndpointsAreListed(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	s := newServer(t, d, admin.Options{Metrics: http.NotFoundHandler(), Hello: func() (labels.Hello, bool) { return labels.Hello{}, true }})
	listed := admin.Endpoints()
	for _, route := range s.Routes() {
		_, path, _ := strings.Cut(route, " ")
		if path == "/*" || path == "/lib/*" || path == "/v1/" || strings.HasPrefix(path, "/debug/") {
			continue
		}
		if !slices.Contains(listed, route) {
			t.Errorf("GET /v1/ does not list %s", route)
		}
	}
	for _, e := range listed {
		if !slices.Contains(s.Routes(), e) {
			t.Errorf("GET /v1/ lists %s, which is not there", e)
		}
	}
	if w := (call{method: http.MethodGet, path: "/v1/"}).do(t, s); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "/v1/explain/") {
		t.Errorf("GET /v1/ = %d %s", w.Code, w.Body)
	}
}
