package decide_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

type granted struct {
	Permit string
	TTLMS  int64
}

func one() *limiter.Policy { return fixedAt(1) }

func fixedAt(n int) *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return constant(n) }}}
}

// constant is a limit that learns nothing.
type constant int

func (c constant) Current() int                          { return int(c) }
func (constant) Observe(int64, time.Duration, int, bool) {}

func grant(t *testing.T, s http.Handler, body string) granted {
	t.Helper()
	w := call{method: "POST", path: "/v1/admissions", body: body}.do(t, s)
	if w.Code != http.StatusCreated {
		t.Fatalf("admission %s = %d %s; want 201", body, w.Code, w.Body)
	}
	g := decode[granted](t, w)
	if w.Header().Get("Location") != "/v1/admissions/"+g.Permit || len(g.Permit) < 22 {
		t.Errorf("permit %q at %q; want one that cannot be guessed, and its place", g.Permit, w.Header().Get("Location"))
	}
	return g
}

func giveBack(t *testing.T, s http.Handler, id, outcome string) int {
	t.Helper()
	return call{method: "DELETE", path: "/v1/admissions/" + id + "?outcome=" + outcome}.do(t, s).Code
}

// A permit is granted, returned once with its outcome, and then unknown.
func TestAdmission(t *testing.T) {
	d := newDaemon(fixedAt(10))
	s := newServer(t, d, 0)
	for _, tc := range []struct {
		outcome          string
		dropped, ignored uint64
	}{
		{"success", 0, 0}, {"", 0, 0}, {"dropped", 1, 0}, {"ignored", 1, 1},
	} {
		g := grant(t, s, `{"ingress":"orders","partition":"a","operation":"read","cost":2.5,"ttlMS":1500}`)
		if g.TTLMS != 1500 {
			t.Errorf("ttl = %d; want the 1500 that were asked for", g.TTLMS)
		}
		if code := giveBack(t, s, g.Permit, "nonsense"); code != 400 {
			t.Errorf("return with an unknown outcome = %d; want 400", code)
		}
		if code := giveBack(t, s, g.Permit, tc.outcome); code != 204 {
			t.Errorf("return as %q = %d; want 204", tc.outcome, code)
		}
		if code := giveBack(t, s, g.Permit, tc.outcome); code != 404 {
			t.Errorf("second return = %d; want 404", code)
		}
		counts := d.gate.Status().Labels[0].Counts
		if counts.Dropped != tc.dropped || counts.Ignored != tc.ignored {
			t.Errorf("after %q: dropped %d, ignored %d; want %d, %d", tc.outcome, counts.Dropped, counts.Ignored, tc.dropped, tc.ignored)
		}
	}
	if n := d.gate.Status().InFlight; n != 0 || s.Permits() != 0 {
		t.Errorf("in flight %d, held %d; want none", n, s.Permits())
	}
}

// An operation has its price here too; the price that the caller names goes
// first. Operations were free of it once.
func TestAdmissionPaysForItsOperation(t *testing.T) {
	d := newDaemon(&limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 10_000}}) // ten tokens
	s := newServer(t, d, 0)
	for body, want := range map[string]float64{
		`{"ingress":"orders","operation":"dear"}`:           7,
		`{"ingress":"orders","operation":"dear","cost":1}`:  1,
		`{"ingress":"orders","operation":"cheap","cost":1}`: 1,
	} {
		before := d.gate.Status().Bucket.Tokens
		grant(t, s, body)
		if got := before - d.gate.Status().Bucket.Tokens; got < want-0.01 || got > want+0.01 {
			t.Errorf("%s paid %v tokens; want %v", body, got, want)
		}
	}
}

// Who may ask is believed which class its work is of.
func TestAdmissionHasAClass(t *testing.T) {
	d := newDaemon(&limiter.Policy{Classes: &limiter.Classes{}})
	s := newServer(t, d, 0)
	grant(t, s, `{"ingress":"orders","class":"sheddable"}`)
	grant(t, s, `{"ingress":"orders"}`)
	for _, n := range d.gate.Status().Classes {
		if want := n.Class == labels.Sheddable || n.Class == labels.Critical; (n.Admitted == 1) != want {
			t.Errorf("%v: %d admitted; want one sheddable, one critical", n.Class, n.Admitted)
		}
	}
}

// What does not hold is refused before anything is asked of the gate.
func TestAdmissionRefusesInput(t *testing.T) {
	d := newDaemon(one())
	s := newServer(t, d, 0)
	for body, code := range map[string]int{
		`{}`:                                  400,
		`{"ingress":"orders","cost":0}`:       400,
		`{"ingress":"orders","cost":-1}`:      400,
		`{"ingress":"orders","cost":1e10}`:    400,
		`{"ingress":"orders","ttlMS":0}`:      400,
		`{"ingress":"orders","ttlMS":600001}`: 400,
		`{"ingress":"orders","wait":1}`:       400,
		`{"ingress":"orders","class":"high"}`: 400,
		`{"ingress":"nobody"}`:                404,
		`{"ingress":"orders","partition":"` + strings.Repeat("x", 257) + `"}`: 400,
	} {
		if w := (call{method: "POST", path: "/v1/admissions", body: body}).do(t, s); w.Code != code {
			t.Errorf("admission %.60s = %d %s; want %d", body, w.Code, w.Body, code)
		}
	}
	if n := d.gate.Status().InFlight; n != 0 {
		t.Errorf("in flight = %d; want 0", n)
	}
	grant(t, s, `{"ingress":"orders"}`) // no place was lost on the way
}

// Rejections are the document and the headers that the HTTP gate answers with.
func TestAdmissionRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		policy  *limiter.Policy
		form    labels.HTTPForm
		cost    string
		code    int
		reason  labels.Reason
		headers map[string]string
	}{
		"concurrency": {
			one(),
			labels.HTTPForm{},
			"1", 503, labels.ConcurrencyLimit,
			map[string]string{"RateLimit-Policy": ""},
		},
		"rate": {
			&limiter.Policy{Rate: limiter.Rate{PerSecond: 0.5, BurstSeconds: 2}},
			labels.HTTPForm{PerSecond: 0.5, BurstSeconds: 2},
			"1", 429, labels.RequestRate,
			map[string]string{"RateLimit-Policy": `"requests";q=1;w=2`},
		},
		"rate, no hints": {
			&limiter.Policy{Rate: limiter.Rate{PerSecond: 0.5, BurstSeconds: 2}},
			labels.HTTPForm{NoHints: true, PerSecond: 0.5, BurstSeconds: 2},
			"1", 429, labels.RequestRate,
			map[string]string{"RateLimit-Policy": "", "RateLimit": "", "Retry-After": ""},
		},
		"cost": {
			&limiter.Policy{Rate: limiter.Rate{PerSecond: 1}},
			labels.HTTPForm{},
			"5", 429, labels.CostExceedsBurst,
			map[string]string{"Retry-After": ""},
		},
		"fixed status, no hints": {
			one(), labels.HTTPForm{NoHints: true, Status: 462}, "1", 462, labels.ConcurrencyLimit, map[string]string{"Retry-After": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(tc.policy)
			d.form = tc.form
			s := newServer(t, d, 0)
			grant(t, s, `{"ingress":"orders","partition":"a"}`)
			w := call{method: "POST", path: "/v1/admissions", body: `{"ingress":"orders","partition":"a","cost":` + tc.cost + `}`}.do(t, s)
			doc, err := labels.Parse(w.Body.Bytes())
			if err != nil {
				t.Fatalf("answer %d %s: %v", w.Code, w.Body, err)
			}
			if w.Code != tc.code || doc.Status != tc.code || doc.Reason != tc.reason || doc.Partition != "a" {
				t.Errorf("answer %d %+v; want %d %s for partition a", w.Code, doc, tc.code, tc.reason)
			}
			if got := w.Header().Get(labels.HeaderReason); got != string(tc.reason) {
				t.Errorf("%s = %q; want %q", labels.HeaderReason, got, tc.reason)
			}
			if tc.form.NoHints == (doc.RetryAfterMS > 0) && tc.reason.Retryable() {
				t.Errorf("retryAfterMS = %d with hints %v", doc.RetryAfterMS, !tc.form.NoHints)
			}
			if !tc.form.NoHints && tc.reason.Retryable() {
				want := strconv.FormatInt(max((doc.RetryAfterMS+999)/1000, 1), 10)
				if got := w.Header().Get("Retry-After"); got != want {
					t.Errorf("Retry-After = %q; want %q, the document's wait in whole seconds", got, want)
				}
			}
			for key, want := range tc.headers {
				if got := w.Header().Get(key); got != want {
					t.Errorf("%s = %q; want %q", key, got, want)
				}
			}
			if s.Permits() != 1 {
				t.Errorf("held = %d; want the 1 that was granted", s.Permits())
			}
		})
	}
}

// A permit that nobody returns ends as dropped at the end of its time, not
// before.
func TestAdmissionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(one())
		s := newServer(t, d, 0)
		for body, ttl := range map[string]time.Duration{
			`{"ingress":"orders"}`:                10 * time.Second,
			`{"ingress":"orders","ttlMS":600000}`: 10 * time.Minute,
		} {
			before := d.gate.Status().Labels[0].Counts.Dropped
			g := grant(t, s, body)
			<-time.After(ttl - time.Nanosecond)
			synctest.Wait()
			if n := d.gate.Status().InFlight; n != 1 {
				t.Errorf("in flight just before %v = %d; want 1", ttl, n)
			}
			<-time.After(time.Nanosecond)
			synctest.Wait()
			st := d.gate.Status()
			if st.InFlight != 0 || st.Labels[0].Counts.Dropped != before+1 || s.Permits() != 0 {
				t.Errorf("after %v: in flight %d, dropped %d, held %d; want 0, %d, 0",
					ttl, st.InFlight, st.Labels[0].Counts.Dropped, s.Permits(), before+1)
			}
			if code := giveBack(t, s, g.Permit, "success"); code != 404 {
				t.Errorf("return of an expired permit = %d; want 404", code)
			}
		}
	})
}

// The bound on permits is a rejection that clients understand, and a returned
// permit makes room.
func TestAdmissionBound(t *testing.T) {
	d := newDaemon(fixedAt(10))
	s := newServer(t, d, 2)
	g := grant(t, s, `{"ingress":"orders"}`)
	grant(t, s, `{"ingress":"orders"}`)
	w := call{method: "POST", path: "/v1/admissions", body: `{"ingress":"orders"}`}.do(t, s)
	doc, err := labels.Parse(w.Body.Bytes())
	if err != nil || w.Code != 503 || !doc.RetryableOverload() {
		t.Errorf("beyond the bound: %d %s (%v); want 503 with both labels", w.Code, w.Body, err)
	}
	if n := d.gate.Status().InFlight; n != 2 {
		t.Errorf("in flight = %d; want 2", n)
	}
	giveBack(t, s, g.Permit, "success")
	grant(t, s, `{"ingress":"orders"}`)
	s.decider.Close()
	if n := d.gate.Status().InFlight; n != 0 {
		t.Errorf("in flight after Close = %d; want 0", n)
	}
	if w := (call{method: "POST", path: "/v1/admissions", body: `{"ingress":"orders"}`}).do(t, s); w.Code != 503 {
		t.Errorf("admission after Close = %d; want 503", w.Code)
	}
}

// Whatever the order of grants, returns and time, the gate has in flight what
// the callers hold and have not lost to expiry, and each permit ends once.
func TestAdmissionsConserve(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// Drawn first: the steps run in a bubble.
		steps := rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(rt, "steps")
		limit := rapid.IntRange(1, 8).Draw(rt, "limit")
		synctest.Test(t, func(t *testing.T) {
			d := newDaemon(fixedAt(limit))
			s := newServer(t, d, 6)
			model := map[string]time.Time{} // id -> expiry
			var ended, lost uint64
			forget := func() {
				for id, at := range model {
					if !time.Now().Before(at) {
						delete(model, id)
						lost++
					}
				}
			}
			for i, step := range steps {
				switch step {
				case 0, 1, 2: // ask
					w := call{method: "POST", path: "/v1/admissions", body: `{"ingress":"orders","ttlMS":1000}`}.do(t, s)
					if room := len(model) < min(limit, 6); (w.Code == 201) != room {
						rt.Fatalf("step %d: admission with %d held = %d", i, len(model), w.Code)
					}
					if w.Code == 201 {
						model[decode[granted](t, w).Permit] = time.Now().Add(time.Second)
					}
				case 3, 4: // return one, twice at once
					for id := range model {
						if codes := returnTwice(t, s, id); codes[204] != 1 || codes[404] != 1 {
							rt.Fatalf("step %d: two returns = %v; want one 204 and one 404", i, codes)
						}
						delete(model, id)
						ended++
						break
					}
				case 5:
					<-time.After(300 * time.Millisecond)
					synctest.Wait()
					forget()
				}
				if n := d.gate.Status().InFlight; n != len(model) || s.Permits() != len(model) {
					rt.Fatalf("step %d: in flight %d, held %d; want %d", i, n, s.Permits(), len(model))
				}
			}
			if got := d.gate.Status().Labels[0].Counts.Dropped; got != lost {
				rt.Fatalf("dropped = %d; want the %d that expired", got, lost)
			}
		})
	})
}

// returnTwice returns a permit from two callers at once and counts the answers.
func returnTwice(t *testing.T, s http.Handler, id string) map[int]int {
	t.Helper()
	codes := map[int]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 2 {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodDelete, "/v1/admissions/"+id, http.NoBody)
		req.Host = "localhost"
		wg.Go(func() {
			w := httptest.NewRecorder()
			s.ServeHTTP(w, req)
			mu.Lock()
			defer mu.Unlock()
			codes[w.Code]++
		})
	}
	wg.Wait()
	return codes
}

// A return that comes in the same instant as the expiry ends the permit once.
func TestReturnMeetsExpiry(t *testing.T) {
	for range 50 {
		synctest.Test(t, func(t *testing.T) {
			d := newDaemon(one())
			s := newServer(t, d, 0)
			g := grant(t, s, `{"ingress":"orders","ttlMS":1000}`)
			code := make(chan int, 1)
			time.AfterFunc(time.Second, func() {
				req := httptest.NewRequest(http.MethodDelete, "/v1/admissions/"+g.Permit, http.NoBody)
				req.Host = "localhost"
				w := httptest.NewRecorder()
				s.ServeHTTP(w, req)
				code <- w.Code
			})
			got := <-code
			synctest.Wait()
			st := d.gate.Status()
			dropped := st.Labels[0].Counts.Dropped
			if st.InFlight != 0 || (got == 204) != (dropped == 0) || (got == 404) != (dropped == 1) {
				t.Errorf("answer %d, in flight %d, dropped %d; want ended once", got, st.InFlight, dropped)
			}
		})
	}
}
