package postgresgate_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/limiter"
)

// locks is a server's word on who waits for a lock.
type locks struct {
	mu     sync.Mutex
	pids   []uint32
	err    error
	asked  int
	closed int
}

func (l *locks) LockWaiters(context.Context) ([]uint32, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	return slices.Clone(l.pids), l.err
}

func (l *locks) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed++
	return nil
}

func (l *locks) set(err error, pids ...uint32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pids, l.err = pids, err
}

func (l *locks) counts() (asked, closed int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked, l.closed
}

// stageLocks is a gate that asks a server who waits for a lock.
func stageLocks(t *testing.T, p *limiter.Policy, o postgresgate.Options) (*scene, *locks) {
	t.Helper()
	l := &locks{}
	o.Activity = func(string) postgresgate.Activity { return l }
	return stage(t, p, o), l
}

// answer is what a server says to a query.
func answer(status byte) []byte { return script(pg('C', "UPDATE 1\x00"), ready(status)) }

// One locked row refused a whole partition before an idle server: those who waited
// for the row held every permit, and lookups of other rows got none.
func TestWhoWaitsForALockHoldsNoPermit(t *testing.T) {
	update := query("update t set a = 1 where id = 1")
	type client struct {
		pid   uint32
		c, up net.Conn
		ended <-chan struct{}
	}
	begin := func(t *testing.T, n int, o postgresgate.Options) (sc *scene, l *locks, all []client) {
		t.Helper()
		sc, l = stageLocks(t, policy(n, 0), o)
		for range n {
			pid, c, up, ended := sc.loginNew()
			say(c, update)
			expect(t, up, update)
			all = append(all, client{pid, c, up, ended})
		}
		return sc, l, all
	}
	// refused has somebody refused, for which the server is asked.
	refused := func(t *testing.T, sc *scene) {
		t.Helper()
		_, c, _, _ := sc.loginNew()
		say(c, query("select 1"))
		if kinds, state := hear(t, c); kinds != "EZI" || state != "53000" {
			t.Errorf("heard %s %s; want EZI 53000", kinds, state)
		}
	}
	held := func(t *testing.T, sc *scene, want int, suspended int64, when string) {
		t.Helper()
		synctest.Wait()
		if got := sc.gate.Status().InFlight; got != want {
			t.Errorf("%d permits are held %s; want %d", got, when, want)
		}
		if got := sc.s.Status().Suspended; got != suspended {
			t.Errorf("%d sessions are suspended %s; want %d", got, when, suspended)
		}
	}
	bubble(t, map[string]func(t *testing.T){
		"seen twice": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 2, postgresgate.Options{IdleInTransaction: postgresgate.IdleRelease})
			time.Sleep(time.Minute)
			if asked, _ := l.counts(); asked != 0 {
				t.Errorf("asked %d times while nobody waited for a permit", asked)
			}
			l.set(nil, all[0].pid, all[1].pid, 77)
			refused(t, sc)
			time.Sleep(300 * time.Millisecond)
			held(t, sc, 2, 0, "when they were seen once")
			refused(t, sc)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 2, "when they were seen twice")
			l.set(nil, all[1].pid)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 1, 1, "when one goes on")
			say(all[0].up, answer('I'))
			hear(t, all[0].c)
			held(t, sc, 0, 1, "when it is answered")
			say(all[1].up, answer('T')) // between two questions
			hear(t, all[1].c)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 0, "when both are")
			say(all[1].c, update)
			expect(t, all[1].up, update)
			held(t, sc, 1, 0, "with the next statement of the transaction")
		},
		"for a moment, again and again": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 1, postgresgate.Options{})
			l.set(nil, all[0].pid)
			for range 9 {
				refused(t, sc)
				time.Sleep(251 * time.Millisecond)
				held(t, sc, 1, 0, "by who was served meanwhile")
				say(all[0].up, answer('I'))
				hear(t, all[0].c)
				say(all[0].c, update)
				expect(t, all[0].up, update)
			}
		},
		"until the server cannot be asked": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 1, postgresgate.Options{})
			l.set(nil, all[0].pid)
			refused(t, sc)
			time.Sleep(300 * time.Millisecond)
			refused(t, sc)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 1, "while it waits")
			l.set(errors.New("gone"))
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 1, 0, "when nobody knows")
			if n := sc.s.Status().ActivityErrors; n != 1 {
				t.Errorf("%d questions failed; want 1", n)
			}
		},
		"and leaves": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 1, postgresgate.Options{CancelAbandoned: true})
			l.set(nil, all[0].pid)
			refused(t, sc)
			time.Sleep(300 * time.Millisecond)
			refused(t, sc)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 1, "while it waits")
			_ = all[0].c.Close()
			side := sc.backend()
			expect(t, side, startupMessage(80877102, "\x00\x00\x00\x01secr")) // it waited at the server for ever
			_ = side.Close()
			<-all[0].ended
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 0, "when it has gone")
		},
		"and leaves, and its work is finished": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 1, postgresgate.Options{})
			l.set(nil, all[0].pid)
			refused(t, sc)
			time.Sleep(300 * time.Millisecond)
			refused(t, sc)
			time.Sleep(250 * time.Millisecond)
			_ = all[0].c.Close()
			time.Sleep(time.Minute)
			held(t, sc, 0, 1, "while it waits for nobody")
			l.set(nil)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 1, 0, "while it works for nobody")
			if n := sc.gate.Status().Labels[0].Abandoned; n != 1 {
				t.Errorf("%d abandoned permits; want 1", n)
			}
			say(all[0].up, answer('I'))
			<-all[0].ended
			held(t, sc, 0, 0, "when it is over")
		},
		"with a permit that it keeps to the end of the transaction": func(t *testing.T) {
			t.Helper()
			sc, l, all := begin(t, 1, postgresgate.Options{IdleInTransaction: postgresgate.IdleKeep})
			l.set(nil, all[0].pid)
			refused(t, sc)
			time.Sleep(300 * time.Millisecond)
			refused(t, sc)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 0, 1, "while it waits")
			say(all[0].up, answer('T'))
			hear(t, all[0].c)
			time.Sleep(250 * time.Millisecond)
			held(t, sc, 1, 0, "inside the transaction")
			say(all[0].c, query("commit"))
			expect(t, all[0].up, query("commit"))
			say(all[0].up, answer('I'))
			hear(t, all[0].c)
			held(t, sc, 0, 0, "behind the transaction")
		},
		"and nobody asks when nobody needs to know": func(t *testing.T) {
			t.Helper()
			sc, l, _ := begin(t, 1, postgresgate.Options{})
			refused(t, sc)
			time.Sleep(time.Minute)
			if asked, closed := l.counts(); asked != 1 || closed != 1 {
				t.Errorf("asked %d times, closed %d; want once", asked, closed)
			}
			refused(t, sc)
			time.Sleep(time.Minute)
			if asked, closed := l.counts(); asked != 2 || closed != 2 {
				t.Errorf("asked %d times, closed %d; want twice", asked, closed)
			}
		},
	})
}

// Without a server that can be asked, statements that have lasted much longer than
// usual leave a quarter of the limit to others.
func TestLongStatementsLeaveAShare(t *testing.T) {
	for name, tc := range map[string]struct {
		limit  int
		usual  time.Duration
		idle   postgresgate.IdlePolicy
		rounds int
		want   int64
	}{
		"after four rounds":                {8, time.Millisecond, postgresgate.IdleAuto, 6, 2},
		"with release":                     {8, time.Millisecond, postgresgate.IdleRelease, 6, 2},
		"not before":                       {8, time.Millisecond, postgresgate.IdleAuto, 3, 0},
		"not where all take as long":       {8, time.Second, postgresgate.IdleAuto, 20, 0},
		"but ten times as long":            {8, time.Second, postgresgate.IdleAuto, 60, 2},
		"as many as the limit":             {8, time.Millisecond, postgresgate.IdleAuto, 60, 8},
		"not of a small limit":             {3, time.Millisecond, postgresgate.IdleAuto, 60, 0},
		"not where transactions keep them": {8, time.Millisecond, postgresgate.IdleKeep, 60, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, policy(tc.limit, 0), postgresgate.Options{IdleInTransaction: tc.idle})
				c, up, _ := sc.login()
				say(c, query("select 1"))
				expect(t, up, query("select 1"))
				time.Sleep(tc.usual)
				say(up, answer('I'))
				hear(t, c)
				for range tc.rounds {
					for refused := false; !refused; {
						_, c, up, _ := sc.loginNew()
						before := sc.gate.Status().InFlight
						say(c, query("select pg_sleep(600)"))
						synctest.Wait()
						if refused = sc.gate.Status().InFlight == before; !refused {
							expect(t, up, query("select pg_sleep(600)"))
						}
					}
					time.Sleep(250 * time.Millisecond)
				}
				if got := sc.s.Status().Suspended; got != tc.want {
					t.Errorf("%d sessions are suspended; want %d", got, tc.want)
				}
			})
		})
	}
}

// Whatever servers say of who waits, and whenever: no permit is lost, and none is
// held twice.
func TestSuspendedPermitsAreConserved(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 1))
			idle := postgresgate.IdlePolicy(seed % 3)
			sc, l := stageLocks(t, policy(3, 0), postgresgate.Options{IdleInTransaction: idle, CancelAbandoned: seed%4 == 0})
			type client struct {
				pid   uint32
				c, up net.Conn
				busy  atomic.Bool // a statement is at the server
				txn   bool
			}
			suspended := int64(0)
			all := make([]*client, 6)
			for i := range all {
				cl := &client{}
				cl.pid, cl.c, cl.up, _ = sc.loginNew()
				all[i] = cl
				go func() { _, _ = io.Copy(io.Discard, cl.c) }()
				go func() {
					for {
						if _, err := readMessage(cl.up); err != nil {
							return
						}
						cl.busy.Store(true)
					}
				}()
			}
			for range 150 {
				cl := all[rnd.IntN(len(all))]
				switch {
				case rnd.IntN(3) == 0:
					var pids []uint32
					for _, cl := range all {
						if rnd.IntN(2) == 0 {
							pids = append(pids, cl.pid)
						}
					}
					err := error(nil)
					if rnd.IntN(10) == 0 {
						err = errors.New("gone")
					}
					l.set(err, pids...)
				case cl.busy.Load():
					cl.busy.Store(false)
					cl.txn = rnd.IntN(2) == 0
					say(cl.up, answer(map[bool]byte{true: 'T', false: 'I'}[cl.txn]))
				default:
					say(cl.c, query("update"))
				}
				time.Sleep(time.Duration(200+rnd.IntN(400)) * time.Millisecond)
				synctest.Wait()
				least, most := 0, 0
				for _, cl := range all {
					if cl.busy.Load() || idle != postgresgate.IdleRelease && cl.txn {
						most++
					}
					if cl.busy.Load() || idle == postgresgate.IdleKeep && cl.txn {
						least++
					}
				}
				s := sc.s.Status()
				suspended = max(suspended, s.Suspended)
				if held := sc.gate.Status().InFlight; held > most || held < least-int(s.Suspended) {
					t.Fatalf("%d permits are held and %d sessions suspended, of %d to %d that should", held, s.Suspended, least, most)
				}
			}
			if suspended == 0 {
				t.Error("nobody was suspended")
			}
			for _, cl := range all {
				if rnd.IntN(2) == 0 {
					_ = cl.c.Close()
				}
			}
			for _, cl := range all {
				_, _ = cl.c.Close(), cl.up.Close()
			}
			time.Sleep(time.Minute)
			if held := sc.gate.Status().InFlight; held != 0 || sc.s.Status().Suspended != 0 {
				t.Errorf("%d permits are held and %d sessions suspended when all have gone", held, sc.s.Status().Suspended)
			}
		})
	}
}

// While statements took seconds, who was refused was told to try again in the few
// milliseconds that statements had taken before; and by whom he was refused, only in
// the detail.
func TestHintsAreHonest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, policy(2, 0), postgresgate.Options{})
		var cs, ups [2]net.Conn
		for i := range cs {
			_, cs[i], ups[i], _ = sc.loginNew()
		}
		_, other, _, _ := sc.loginNew()
		work := func(of int, takes time.Duration) {
			t.Helper()
			say(cs[of], query("update"))
			expect(t, ups[of], query("update"))
			time.Sleep(takes)
		}
		done := func(of int) {
			t.Helper()
			say(ups[of], answer('I'))
			hear(t, cs[of])
		}
		hint := func() int {
			t.Helper()
			say(other, query("select 1"))
			ms := 0
			for {
				m, err := readMessage(other)
				if err != nil {
					t.Fatal(err)
				}
				if m[0] == 'Z' {
					return ms
				}
				_, hint, _ := strings.Cut(string(m), "\x00Hretry in ")
				word, _, _ := strings.Cut(hint, " ")
				ms, _ = strconv.Atoi(word)
				if !strings.Contains(string(m), "\x00Madmitd pg: Concurrency limiter 'partitionConcurrencyLimiter' limit exceeded for \"default\"\x00") {
					t.Errorf("told %q", m)
				}
			}
		}
		for range 40 { // short ones, while others are refused
			work(0, time.Millisecond)
			work(1, time.Millisecond)
			hint()
			done(0)
			done(1)
		}
		time.Sleep(20 * time.Second)
		work(0, 0)
		work(1, 0)
		if ms := hint(); ms > 100 {
			t.Errorf("at first: retry in %d ms; want what statements took before", ms)
		}
		for range 8 {
			time.Sleep(260 * time.Millisecond)
			hint()
		}
		if ms := hint(); ms < 1500 {
			t.Errorf("two seconds later: retry in %d ms; want 1.5 s at least", ms)
		}
	})
}
