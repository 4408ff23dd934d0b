package fleet_test

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// member is a gate in real time: a group, and a load that takes all it gets.
type member struct {
	*fleet.Group

	bucket   *limiter.Bucket
	admitted atomic.Int64
	stop     func()
}

// since is the clock of the members.
var since = time.Now()

func now() int64 { return int64(time.Since(since)) }

// join starts a member of the group that shares a rate of 1000 tokens a second.
func join(t *testing.T, r fleet.Redis, s fleet.Settings) *member {
	t.Helper()
	m := &member{bucket: limiter.NewBucket(limiter.Rate{PerSecond: 1000, Sharers: 2}, now())}
	g, err := fleet.New(fleet.Options{
		Redis: r, Name: "orders", Settings: s, Now: now,
		Buckets: func(yield func(string, string, *limiter.Bucket) bool) { yield("orders", "orders", m.bucket) },
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Group = g
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Run(ctx) })
	wg.Go(func() { m.load(ctx) })
	m.stop = sync.OnceFunc(func() { cancel(); wg.Wait() })
	t.Cleanup(m.stop)
	return m
}

// load asks for about 2000 tokens a second.
func (m *member) load(ctx context.Context) {
	ticker := time.NewTicker(2 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		for range 4 {
			if _, ok := m.bucket.Take(now(), 1); ok {
				m.admitted.Add(1)
			} else {
				m.bucket.Miss(1)
			}
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// quick are settings with which a test does not take long.
func quick() fleet.Settings {
	return fleet.Settings{Interval: 60 * time.Millisecond, Lease: 400 * time.Millisecond, Gates: 2}
}

func (m *member) in(mode fleet.Mode) func() bool {
	return func() bool { got, _ := m.Mode(); return got == mode }
}

// Each row is something that happens to Redis, or on the way to it: the gates go
// on by their fallback, come back by themselves, admit no more in all than the
// rate allows, and neither calls nor connections pile up.
func TestGatesOutliveTheirRedis(t *testing.T) {
	for name, tc := range map[string]struct {
		args  []string
		fault func(r *server, p *proxy)
		mend  func(r *server, p *proxy)
	}{
		"killed, without a log":   {nil, func(r *server, _ *proxy) { r.kill() }, func(r *server, _ *proxy) { r.start() }},
		"killed, with a log":      {[]string{"--appendonly", "yes"}, func(r *server, _ *proxy) { r.kill() }, func(r *server, _ *proxy) { r.start() }},
		"stopped":                 {nil, func(r *server, _ *proxy) { r.signal(syscall.SIGSTOP) }, func(r *server, _ *proxy) { r.signal(syscall.SIGCONT) }},
		"paused":                  {nil, func(r *server, _ *proxy) { r.do("CLIENT", "PAUSE", "1500", "ALL") }, func(*server, *proxy) {}},
		"behind a black hole":     {nil, func(_ *server, p *proxy) { p.swallow(true) }, func(_ *server, p *proxy) { p.swallow(false); p.reset() }},
		"out of memory":           {nil, func(r *server, _ *proxy) { r.do("CONFIG", "SET", "maxmemory", "1") }, func(r *server, _ *proxy) { r.do("CONFIG", "SET", "maxmemory", "0") }},
		"read only":               {nil, func(r *server, _ *proxy) { r.do("REPLICAOF", "127.0.0.1", "1") }, func(r *server, _ *proxy) { r.do("REPLICAOF", "NO", "ONE") }},
		"without the right":       {nil, func(r *server, _ *proxy) { r.do("ACL", "SETUSER", "default", "-hset") }, func(r *server, _ *proxy) { r.do("ACL", "SETUSER", "default", "+@all") }},
		"another's key":           {nil, func(r *server, _ *proxy) { r.do("SET", "admitd:{orders}:r:orders", "x") }, func(r *server, _ *proxy) { r.do("DEL", "admitd:{orders}:r:orders") }},
		"a cluster without slots": {[]string{"--cluster-enabled", "yes"}, nil, func(r *server, _ *proxy) { r.do("CLUSTER", "ADDSLOTSRANGE", "0", "16383") }},
	} {
		t.Run(name, func(t *testing.T) {
			r := startRedis(t, tc.args...)
			p := startProxy(t, r.addr)
			begun := time.Now()
			a, b := join(t, fleet.Redis{Addresses: []string{p.ln.Addr().String()}}, quick()), join(t, fleet.Redis{Addresses: []string{p.ln.Addr().String()}}, quick())
			if tc.fault != nil {
				eventually(t, "both are leased", func() bool { return a.in(fleet.Leased)() && b.in(fleet.Leased)() && a.Status().Gates == 2 })
				tc.fault(r, p)
			}
			without := fleet.FairMode
			if name == "another's key" {
				without = fleet.Partly // the group answers, but not for this quota
			}
			eventually(t, "one goes by its fallback", a.in(without))
			before := a.admitted.Load()
			eventually(t, "it admits", func() bool { return a.admitted.Load() > before })
			if n := runtime.NumGoroutine(); n > 120 {
				t.Errorf("%d goroutines while Redis is away", n)
			}
			tc.mend(r, p)
			eventually(t, "both are leased again", func() bool { return a.in(fleet.Leased)() && b.in(fleet.Leased)() && a.Status().Gates == 2 })
			eventually(t, "shares are settled", func() bool {
				q := a.Status().Quotas
				return len(q) == 1 && q[0].Gates == 2 && q[0].Share > 300 && q[0].Share < 700
			})
			for _, m := range []*member{a, b} {
				m.stop()
			}
			spent := float64(a.admitted.Load() + b.admitted.Load())
			// One burst in stock, what may be owed, and what gates hold that begin;
			// and at each return once what went on while nobody counted.
			most := 1000*time.Since(begun).Seconds() + 1000 + 300 + 200 + 2*400
			if spent > most {
				t.Errorf("%.0f tokens were spent in %v of 1000/s; want at most %.0f", spent, time.Since(begun), most)
			}
		})
	}
}

// A forgotten script is sent again, and a flushed state is begun anew; neither is
// an outage.
func TestForgottenScriptAndState(t *testing.T) {
	r := startRedis(t)
	m := join(t, fleet.Redis{Addresses: []string{r.addr}}, quick())
	epoch := func() string {
		if q := m.Status().Quotas; len(q) == 1 {
			return q[0].Epoch
		}
		return ""
	}
	eventually(t, "it is leased", func() bool { return epoch() != "" })
	first, failures := epoch(), m.Status().Failures
	r.do("SCRIPT", "FLUSH")
	r.do("FLUSHALL")
	eventually(t, "there is another epoch", func() bool { return epoch() != first })
	if got := m.Status().Failures; got > failures+2 { // a slow machine may add a timeout
		t.Errorf("%d calls failed after the flush, %d before", got, failures)
	}
}

// A group's calls go over a few connections, whatever happens to them.
func TestConnectionsDoNotPileUp(t *testing.T) {
	r := startRedis(t)
	p := startProxy(t, r.addr)
	m := join(t, fleet.Redis{Addresses: []string{p.ln.Addr().String()}}, quick())
	eventually(t, "it is leased", m.in(fleet.Leased))
	before := runtime.NumGoroutine()
	for range 5 {
		p.swallow(true)
		eventually(t, "it hears nothing", m.in(fleet.FairMode))
		p.swallow(false)
		p.reset()
		eventually(t, "it is leased again", m.in(fleet.Leased))
	}
	p.mu.Lock()
	open := len(p.conns) / 2
	p.mu.Unlock()
	if open > 8 {
		t.Errorf("%d connections are open after 5 black holes; want a few", open)
	}
	eventually(t, "no goroutines are left over", func() bool { return runtime.NumGoroutine() <= before+12 })
}
