package openloop_test

import (
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
)

// play drives a load in a bubble, in which nothing takes time but what sleeps.
func play(t *testing.T, l openloop.Load) *openloop.Tally {
	t.Helper()
	tally := openloop.NewTally(l.Objective)
	synctest.Test(t, func(t *testing.T) { l.Run(t.Context(), tally) })
	return tally
}

// answering is a sender whose answers take a time and come after some attempts.
func answering(takes time.Duration, v measure.Verdict, attempts int) func(context.Context) openloop.Sent {
	return func(ctx context.Context) openloop.Sent {
		select {
		case <-time.After(takes):
			return openloop.Sent{Verdict: v, Attempts: attempts, Last: takes / 2}
		case <-ctx.Done():
			return openloop.Sent{Verdict: measure.Failed, Attempts: attempts}
		}
	}
}

// The rate is kept on average whatever the answers are, and every request is one of
// answered, refused and failed.
func TestLoadKeepsItsRate(t *testing.T) {
	for name, tc := range map[string]struct {
		send          func(context.Context) openloop.Sent
		good, goodput float64 // of the arrivals
		attempts      float64
	}{
		"at once":            {answering(0, measure.Answered, 1), 1, 1, 1},
		"in time":            {answering(50*time.Millisecond, measure.Answered, 1), 1, 1, 1},
		"late":               {answering(150*time.Millisecond, measure.Answered, 1), 0, 0, 1},
		"late, but retried":  {answering(150*time.Millisecond, measure.Answered, 3), 1, 1, 3},
		"refused":            {answering(0, measure.Refused, 2), 0, 0, 2},
		"never, so timeouts": {answering(time.Hour, measure.Answered, 1), 0, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			l := openloop.Load{Rate: 200, For: 30 * time.Second, WarmUp: 5 * time.Second, Send: tc.send, Seed: 1}
			tally := play(t, l)
			s := tally.Snapshot()
			if want := 200.0 * 25; math.Abs(float64(s.Scheduled)-want) > 0.05*want {
				t.Errorf("%d requests are counted; want about %v, those of the warm-up left out", s.Scheduled, want)
			}
			if s.Answered+s.Refused+s.Failed != s.Scheduled || s.Outstanding != 0 {
				t.Errorf("%+v: a request is missing, or is still out", s)
			}
			if got := float64(s.Good) / float64(s.Scheduled); got != tc.good {
				t.Errorf("%v of the requests are good; want %v", got, tc.good)
			}
			if got := tally.Goodput() / 200; math.Abs(got-tc.goodput) > 0.05 {
				t.Errorf("goodput %.3f of the rate; want %v", got, tc.goodput)
			}
			if got := tally.AttemptsPerRequest(); got != tc.attempts {
				t.Errorf("%v attempts per request; want %v", got, tc.attempts)
			}
			if tally.Void() || s.Missed != 0 {
				t.Errorf("%d sends are missed where nothing is in the way", s.Missed)
			}
		})
	}
}

// A latency counts from the moment at which the request was due.
func TestLatencyIsFromTheDueTime(t *testing.T) {
	l := openloop.Load{Rate: 100, For: 10 * time.Second, Send: answering(70*time.Millisecond, measure.Answered, 1), Seed: 2}
	tally := play(t, l)
	for _, q := range []float64{0.5, 0.99} {
		if got := tally.Quantile(q); got < 69*time.Millisecond || got > 72*time.Millisecond {
			t.Errorf("quantile %v is %v; want the 70 ms that an answer takes", q, got)
		}
	}
}

// Equal seeds make equal arrivals.
func TestSeeds(t *testing.T) {
	due := func(seed uint64) (list []time.Duration) {
		var begin time.Time
		l := openloop.Load{Rate: 50, For: 2 * time.Second, Seed: seed}
		var last atomic.Int64
		l.Send = func(context.Context) openloop.Sent {
			last.Store(int64(time.Since(begin)))
			return openloop.Sent{Attempts: 1}
		}
		synctest.Test(t, func(t *testing.T) {
			begin = time.Now()
			l.Run(t.Context(), openloop.NewTally(0))
		})
		return append(list, time.Duration(last.Load()))
	}
	if a, b, c := due(1)[0], due(1)[0], due(2)[0]; a != b || a == c {
		t.Errorf("the last arrival is at %v, %v with one seed, and at %v with another", a, b, c)
	}
}

// A backend that answers nobody must not take the sender's memory: what is beyond
// the bound is not sent, is missed, and makes the run prove nothing.
func TestOutstandingIsBounded(t *testing.T) {
	var most, now atomic.Int64
	l := openloop.Load{Rate: 1000, For: 3 * time.Second, Timeout: time.Second, MaxOutstanding: 50, Seed: 3}
	l.Send = func(ctx context.Context) openloop.Sent {
		most.Store(max(most.Load(), now.Add(1)))
		defer now.Add(-1)
		<-ctx.Done()
		return openloop.Sent{Verdict: measure.Failed, Attempts: 1}
	}
	tally := play(t, l)
	if most.Load() > 50 {
		t.Errorf("%d requests were out at a time; want at most 50", most.Load())
	}
	s := tally.Snapshot()
	if !tally.Void() || s.Missed < 2000 || s.Failed+s.Missed != s.Scheduled {
		t.Errorf("%+v, void %v; want most of the 3000 missed and the run void", s, tally.Void())
	}
}

// A run ends when it is told to, with what is out.
func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		begin, tally := time.Now(), openloop.NewTally(0)
		l := openloop.Load{Rate: 100, For: time.Hour, Send: answering(10*time.Second, measure.Answered, 1), Timeout: time.Minute}
		l.Run(ctx, tally)
		if got := time.Since(begin); got != 1500*time.Millisecond {
			t.Errorf("the run ended after %v; want 1.5 s", got)
		}
		if s := tally.Snapshot(); s.Outstanding != 0 || tally.Goodput() != 0 {
			t.Errorf("%+v, goodput %v after a run that was ended", s, tally.Goodput())
		}
	})
}

// An empty tally has no numbers that are none.
func TestEmptyTally(t *testing.T) {
	tally := openloop.NewTally(0)
	if tally.Goodput() != 0 || tally.AttemptsPerRequest() != 0 || tally.Quantile(0.99) != 0 || tally.Void() {
		t.Errorf("goodput %v, attempts %v, p99 %v, void %v of nothing", tally.Goodput(), tally.AttemptsPerRequest(), tally.Quantile(0.99), tally.Void())
	}
}

// answers is a transport that answers one request after the other.
type answers struct {
	list []answer
	seen []string // the header of each
	n    int
}

type answer struct {
	status int
	labels string
	err    error
	body   error // that reading the body ends with
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	a.seen = append(a.seen, r.Header.Get("X-Tenant"))
	next := a.list[min(a.n, len(a.list)-1)]
	a.n++
	if next.err != nil {
		return nil, next.err
	}
	h := http.Header{}
	body := io.Reader(strings.NewReader("{}"))
	if next.labels != "" {
		h.Set("Content-Type", "application/json")
		body = strings.NewReader(`{"errorLabels":[` + next.labels + `]}`)
	}
	if next.body != nil {
		body = io.MultiReader(strings.NewReader("half"), broken{next.body})
	}
	return &http.Response{StatusCode: next.status, Header: h, Body: io.NopCloser(body), Request: r, ProtoMajor: 1, ProtoMinor: 1}, nil
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// A sender tells how each request went, and how often it was sent.
func TestHTTPSender(t *testing.T) {
	gone := errors.New("connection reset")
	for name, tc := range map[string]struct {
		list    []answer
		retries int
		verdict measure.Verdict
		n       int
	}{
		"served":           {[]answer{{status: 200}}, 0, measure.Answered, 1},
		"refused":          {[]answer{{status: 429}}, 0, measure.Refused, 1},
		"refused by a 503": {[]answer{{status: 503}}, 0, measure.Refused, 1},
		"failed":           {[]answer{{status: 500}}, 0, measure.Failed, 1},
		// Reads are tried once more. It was counted as refused: a live run before a
		// backend that was down showed refusals that nobody made.
		"no answer":      {[]answer{{err: gone}}, 0, measure.Failed, 2},
		"half an answer": {[]answer{{status: 200, body: gone}}, 0, measure.Failed, 1},
		"served in the end": {
			[]answer{{status: 503, labels: `"SystemOverloadedError","RetryableError"`}, {status: 200}}, 2, measure.Answered, 2,
		},
		"refused for good": {
			[]answer{{status: 503, labels: `"SystemOverloadedError","RetryableError"`}}, 2, measure.Refused, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				policy := client.Driver()
				policy.MaxRetries = tc.retries
				c, err := client.New(client.Options{Policy: &policy})
				if err != nil {
					t.Fatal(err)
				}
				transport := &answers{list: tc.list}
				sent := openloop.NewHTTPSender(c, transport).Send(t.Context(), "http://gate/", "X-Tenant", "a")
				if sent.Verdict != tc.verdict || sent.Attempts != tc.n || sent.Attempts != transport.n {
					t.Errorf("sent %+v over %d round trips; want %v after %d", sent, transport.n, tc.verdict, tc.n)
				}
				for _, tenant := range transport.seen {
					if tenant != "a" {
						t.Errorf("the header of an attempt is %q", tenant)
					}
				}
				if sent := openloop.NewHTTPSender(c, transport).Send(t.Context(), ":no url", "", ""); sent.Verdict != measure.Failed || sent.Attempts != 0 {
					t.Errorf("to no URL: %+v", sent)
				}
			})
		})
	}
}

// A quantile is of the latencies that were seen, in order.
func TestQuantiles(t *testing.T) {
	var n atomic.Int64
	l := openloop.Load{Rate: 100, For: 20 * time.Second, Timeout: time.Minute, Seed: 1}
	l.Send = func(context.Context) openloop.Sent {
		time.Sleep(time.Duration(n.Add(1)%1000) * time.Millisecond) // each of 0 to 999 ms twice
		return openloop.Sent{Verdict: measure.Answered, Attempts: 1}
	}
	tally := play(t, l)
	for q, want := range map[float64]time.Duration{0.01: 10 * time.Millisecond, 0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond, 1: 999 * time.Millisecond} {
		if got := tally.Quantile(q); (got - want).Abs() > want/20+2*time.Millisecond {
			t.Errorf("quantile %v is %v; want about %v", q, got, want)
		}
	}
}

// Latencies beyond seconds are kept: a run with patient clients shows them.
func TestLongLatencies(t *testing.T) {
	l := openloop.Load{Rate: 10, For: time.Second, Timeout: 10 * time.Minute, Send: answering(5*time.Minute, measure.Answered, 1), Seed: 1}
	if got := play(t, l).Quantile(0.5); got < 290*time.Second || got > 310*time.Second {
		t.Errorf("an answer after five minutes is one after %v", got)
	}
}

// One send in a thousand may be missed before a run proves nothing.
func TestVoid(t *testing.T) {
	seen := map[bool]bool{}
	for _, stuck := range []time.Duration{2 * time.Millisecond, 20 * time.Millisecond} {
		var n atomic.Int64
		l := openloop.Load{Rate: 1000, For: 5 * time.Second, MaxOutstanding: 1, Seed: 4}
		l.Send = func(context.Context) openloop.Sent {
			if n.Add(1) == 100 {
				time.Sleep(stuck) // and all that come meanwhile are missed
			}
			return openloop.Sent{Verdict: measure.Answered, Attempts: 1}
		}
		tally := play(t, l)
		s := tally.Snapshot()
		if want := s.Missed*1000 > s.Scheduled; s.Missed == 0 || tally.Void() != want {
			t.Errorf("%d of %d are missed, void: %v; want %v", s.Missed, s.Scheduled, tally.Void(), want)
		}
		seen[tally.Void()] = true
	}
	if len(seen) != 2 {
		t.Errorf("both runs are void, or neither: %v", seen)
	}
}

// What is not said of a load is as its documents say: a second of patience, and twenty
// thousand requests on their way.
func TestLoadDefaults(t *testing.T) {
	var waited atomic.Int64
	l := openloop.Load{Rate: 100, For: time.Second, Seed: 1, Send: func(ctx context.Context) openloop.Sent {
		begin := time.Now()
		<-ctx.Done()
		waited.Store(int64(time.Since(begin)))
		return openloop.Sent{Verdict: measure.Failed, Attempts: 1}
	}}
	play(t, l)
	if got := time.Duration(waited.Load()); got != time.Second {
		t.Errorf("a request was given up after %v; want 1 s", got)
	}
}
