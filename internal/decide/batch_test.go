package decide_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

type batchAnswer struct {
	Ended    []bool
	Admitted []struct {
		Status    int
		Permit    string
		TTLMS     int64
		Rejection *labels.Document
	}
}

func sendBatch(t *testing.T, s http.Handler, body string) batchAnswer {
	t.Helper()
	w := call{method: "POST", path: "/v1/admissions/batch", body: body}.do(t, s)
	if w.Code != http.StatusOK {
		t.Fatalf("batch %s = %d %s; want 200", body, w.Code, w.Body)
	}
	return decode[batchAnswer](t, w)
}

// What ends makes room for what is asked in the same call, and each answer is
// the one that a call of its own would have had.
func TestBatch(t *testing.T) {
	d := newDaemon(one())
	s := newServer(t, d, 0)
	first := grant(t, s, `{"ingress":"orders"}`)
	got := sendBatch(t, s, fmt.Sprintf(`{"end": [{"permit": %q, "outcome": "dropped"}, {"permit": "nobody's"}],
		"admit": [{"ingress": "orders", "ttlMS": 1500}, {"ingress": "orders"}, {"ingress": "nobody"}]}`, first.Permit))
	if len(got.Ended) != 2 || !got.Ended[0] || got.Ended[1] {
		t.Errorf("ended %v; want the first only", got.Ended)
	}
	if len(got.Admitted) != 3 {
		t.Fatalf("admitted %+v; want three answers", got.Admitted)
	}
	if a := got.Admitted[0]; a.Status != 201 || a.Permit == "" || a.TTLMS != 1500 || a.Rejection != nil {
		t.Errorf("first = %+v; want a permit of 1500 ms", a)
	}
	if a := got.Admitted[1]; a.Status != 503 || a.Permit != "" || a.Rejection == nil || a.Rejection.Reason != labels.ConcurrencyLimit {
		t.Errorf("second = %+v; want refused, and why", a)
	}
	if a := got.Admitted[2]; a.Status != 404 {
		t.Errorf("third = %+v; want 404", a)
	}
	if c := d.gate.Status().Labels[0].Counts; c.Dropped != 1 {
		t.Errorf("dropped = %d; want the one that was ended so", c.Dropped)
	}
}

// A batch that does not hold does nothing at all.
func TestBatchRefusesInput(t *testing.T) {
	s := newServer(t, newDaemon(fixedAt(1000)), 0)
	held := grant(t, s, `{"ingress":"orders"}`)
	for _, body := range []string{
		`{"admit": [{"ingress": "orders"}, {"ingress": "orders", "cost": -1}]}`,
		fmt.Sprintf(`{"end": [{"permit": %q, "outcome": "fine"}]}`, held.Permit),
		`{"admit": [` + strings.TrimSuffix(strings.Repeat(`{"ingress":"orders"},`, 101), ",") + `]}`,
		`{"ask": []}`,
	} {
		if w := (call{method: "POST", path: "/v1/admissions/batch", body: body}).do(t, s); w.Code != http.StatusBadRequest {
			t.Errorf("batch %.60s = %d; want 400", body, w.Code)
		}
	}
	if s.Permits() != 1 {
		t.Errorf("held = %d; want the one from before", s.Permits())
	}
}

// Whatever is ended, asked and left to expire in whatever batches, the gate has
// in flight what callers hold, and each permit ends once.
func TestBatchesConserve(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct{ End, Admit, Pass int }
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{rapid.IntRange(0, 4).Draw(rt, "end"), rapid.IntRange(0, 4).Draw(rt, "admit"), rapid.IntRange(0, 3).Draw(rt, "pass")}
		}), 1, 30).Draw(rt, "steps")
		limit := rapid.IntRange(1, 6).Draw(rt, "limit")
		synctest.Test(t, func(t *testing.T) {
			d := newDaemon(fixedAt(limit))
			s := newServer(t, d, 0)
			var order []string // ids that are held, oldest first
			expiry := map[string]time.Time{}
			for i, st := range steps {
				<-time.After(time.Duration(st.Pass) * 300 * time.Millisecond)
				synctest.Wait()
				for len(order) > 0 && !time.Now().Before(expiry[order[0]]) {
					order = order[1:]
				}
				ending := order[:min(st.End, len(order))]
				order = order[len(ending):]
				var end, admit []string
				for _, id := range ending {
					end = append(end, fmt.Sprintf(`{"permit": %q}`, id))
				}
				for range st.Admit {
					admit = append(admit, `{"ingress": "orders", "ttlMS": 1000}`)
				}
				got := sendBatch(t, s, fmt.Sprintf(`{"end": [%s], "admit": [%s]}`, strings.Join(end, ","), strings.Join(admit, ",")))
				for j, ok := range got.Ended {
					if !ok {
						rt.Fatalf("step %d: %s was not there any more", i, ending[j])
					}
				}
				for _, a := range got.Admitted {
					if room := len(order) < limit; (a.Status == 201) != room {
						rt.Fatalf("step %d: with %d of %d held: %+v", i, len(order), limit, a)
					}
					if a.Status == 201 {
						order, expiry[a.Permit] = append(order, a.Permit), time.Now().Add(time.Second)
					}
				}
				if n := d.gate.Status().InFlight; n != len(order) || s.Permits() != n {
					rt.Fatalf("step %d: in flight %d, held %d; want %d", i, n, s.Permits(), len(order))
				}
			}
		})
	})
}

// Whatever is sent as JSON, or asked in a query, is answered and breaks nothing.
func FuzzAsks(f *testing.F) {
	f.Add("/v1/admissions", `{"ingress":"orders","partition":"a","operation":"read","cost":2.5,"ttlMS":1500}`)
	f.Add("/v1/admissions", `{"ingress":"orders","cost":1e400}`)
	f.Add("/v1/admissions/batch", `{"end":[{"permit":"x"}],"admit":[{"ingress":"orders"},{}]}{}`)
	f.Add("/v1/authorize", `ingress=orders&deny=403&hold=1s&cost=1e3`)
	f.Fuzz(func(t *testing.T, path, said string) {
		s := newServer(t, newDaemon(&limiter.Policy{}), 0)
		c := call{method: "POST", path: path, body: said}
		switch path {
		case "/v1/admissions", "/v1/admissions/batch":
		case "/v1/authorize":
			c = call{method: "GET", path: path + "?" + (&url.URL{RawQuery: said}).Query().Encode()}
		default:
			t.Skip("nobody is there")
		}
		w := c.do(t, s)
		switch {
		case w.Code >= 500 && w.Code != 503, w.Code < 200, w.Code >= 300 && w.Code < 400:
			t.Errorf("%s %q = %d %s", path, said, w.Code, w.Body)
		case w.Code != http.StatusNoContent && !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %q is answered with what is no JSON: %s", path, said, w.Body)
		}
	})
}
