package postgresgate_test

import (
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/limiter"
)

// A limit bounded statements and not the transactions that were open, which hold
// locks that others wait for. A session that was idle inside one for long held a
// permit, where it kept it, to the end.
func TestTransactionsKeepTheirPermit(t *testing.T) {
	update := query("update t set a = 1")
	begin := func(t *testing.T, p *limiter.Policy) (sc *scene, c, up net.Conn) {
		t.Helper()
		sc = stage(t, p, postgresgate.Options{})
		c, up, _ = sc.login()
		turn(t, c, up, query("begin"), ready('T'))
		return sc, c, up
	}
	held := func(t *testing.T, sc *scene, want int, when string) {
		t.Helper()
		synctest.Wait()
		if got := sc.gate.Status().InFlight; got != want {
			t.Errorf("%d permits are held %s; want %d", got, when, want)
		}
	}
	bubble(t, map[string]func(t *testing.T){
		"while nobody else wants it": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, policy(1, 0))
			time.Sleep(time.Hour)
			held(t, sc, 1, "while the session is idle")
			turn(t, c, up, update, ready('T'))
			held(t, sc, 1, "behind a statement")
			turn(t, c, up, query("commit"), ready('I'))
			held(t, sc, 0, "behind the transaction")
		},
		"and give it back when somebody is refused": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, policy(1, 0))
			time.Sleep(time.Minute)
			_, other, _, _ := sc.loginNew()
			refusedTurn(t, other, query("select 1"))
			time.Sleep(99 * time.Millisecond)
			held(t, sc, 1, "before it was idle for two looks")
			time.Sleep(2 * time.Millisecond)
			held(t, sc, 0, "when it was")
			p := sc.take()
			say(c, update)
			expect(t, up, update)
			held(t, sc, 2, "when it goes on")
			say(up, ready('T'))
			hear(t, c)
			held(t, sc, 1, "between its statements, of which each takes one by force now")
			turn(t, c, up, query("commit"), ready('I'))
			p.End(limiter.Ignored)
			turn(t, c, up, query("begin"), ready('T'))
			held(t, sc, 1, "by the next transaction")
		},
		"and give it to who waits": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, policy(1, 1))
			_, other, behind, _ := sc.loginNew()
			began := time.Now()
			say(other, update)
			expect(t, behind, update)
			if took := time.Since(began); took != 100*time.Millisecond {
				t.Errorf("waited for %v; want 100ms", took)
			}
			say(behind, ready('I'))
			hear(t, other)
			_ = c.Close()
			if n, err := up.Read(make([]byte, 1)); n > 0 || err == nil {
				t.Errorf("read %d bytes, %v; want the end", n, err)
			}
			held(t, sc, 0, "when it has left")
		},
		"not between statements that follow each other": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, policy(1, 0))
			_, other, _, _ := sc.loginNew()
			for range 100 {
				refusedTurn(t, other, query("select 1"))
				time.Sleep(20 * time.Millisecond)
				turn(t, c, up, update, ready('T'))
				held(t, sc, 1, "inside the transaction")
			}
		},
		"not while a statement is at work": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, policy(1, 0))
			_, other, _, _ := sc.loginNew()
			say(c, update)
			expect(t, up, update)
			for range 100 {
				refusedTurn(t, other, query("select 1"))
				time.Sleep(20 * time.Millisecond)
			}
			held(t, sc, 1, "by who works")
		},
	})
}

// taught is a limit that notes the latencies that it is told.
type taught struct {
	fixed

	mu  *sync.Mutex
	all *[]time.Duration
}

func (l taught) Observe(_ int64, latency time.Duration, _ int, _ bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*l.all = append(*l.all, latency)
}

// What a limit is told of a transaction that kept its permit is how long it held it,
// unless that is the client's thinking.
func TestTransactionsTeachTheirLength(t *testing.T) {
	const step = 10 * time.Millisecond
	for name, tc := range map[string]struct {
		idle, thinks time.Duration // at once, and before the last statement
		wanted       bool          // somebody is refused while it thinks
		says         []byte        // in the middle
		want         []time.Duration
	}{
		"of several statements": {says: ready('T'), want: []time.Duration{3 * step}},
		"after a long rest":     {idle: time.Hour, says: ready('T'), want: []time.Duration{3 * step}},
		"that thinks":           {thinks: 2 * time.Second, says: ready('T')},
		"that yields":           {thinks: 200 * time.Millisecond, wanted: true, says: ready('T'), want: []time.Duration{2*step + 100*time.Millisecond}},
		"that fails":            {says: script(failure("23505", "duplicate"), ready('E'))},
		"that copies":           {says: script(pg('H', "\x00\x00\x00"), ready('T'))},
	} {
		bubble(t, map[string]func(t *testing.T){name: func(t *testing.T) {
			t.Helper()
			var all []time.Duration
			var mu sync.Mutex
			p := policy(1, 0)
			p.Default.NewLimit = func() limiter.Limit { return taught{1, &mu, &all} }
			sc := stage(t, p, postgresgate.Options{})
			c, up, _ := sc.login()
			time.Sleep(tc.idle)
			for i, text := range []string{"begin", "update", "commit"} {
				if i == 2 {
					if tc.wanted {
						_, other, _, _ := sc.loginNew()
						refusedTurn(t, other, query("select 1"))
					}
					time.Sleep(tc.thinks)
				}
				say(c, query(text))
				expect(t, up, query(text))
				time.Sleep(step)
				say(up, [][]byte{ready('T'), tc.says, ready('I')}[i])
				hear(t, c)
			}
			synctest.Wait()
			if !slices.Equal(all, tc.want) {
				t.Errorf("the limit was told %v; want %v", all, tc.want)
			}
		}})
	}
}
