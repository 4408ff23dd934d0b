package postgresgate_test

import (
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// A client that was there, and sent no rows in the middle of a COPY, or read no
// answer, held its permit for as long as that lasted: a few of them took a whole
// partition out of service while the server did nothing.
func TestNobodyWorks(t *testing.T) {
	copies := query("copy t from stdin")
	takes := pg('G', "\x00\x00\x00")
	row := pg('d', "1\n")
	begin := func(t *testing.T, first []byte) (sc *scene, c, up net.Conn) {
		t.Helper()
		sc = stage(t, policy(1, 0), postgresgate.Options{})
		c, up, _ = sc.login()
		say(c, first)
		expect(t, up, first)
		return sc, c, up
	}
	held := func(t *testing.T, sc *scene, want int, when string) {
		t.Helper()
		synctest.Wait()
		if got := sc.gate.Status().InFlight; got != want {
			t.Errorf("%d permits are held %s; want %d", got, when, want)
		}
	}
	after := func(d time.Duration) { time.Sleep(d) }
	bubble(t, map[string]func(t *testing.T){
		"while no rows come": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, copies)
			say(up, takes)
			expect(t, c, takes)
			after(3 * time.Second)
			held(t, sc, 0, "while the client is silent")
			sc.take()
			say(c, row)
			expect(t, up, row)
			held(t, sc, 2, "when rows come again")
			say(c, copyDone)
			expect(t, up, copyDone)
			after(5 * time.Minute)
			held(t, sc, 2, "while the server works at what it got")
			say(up, script(pg('C', "COPY 1\x00"), ready('I')))
			hear(t, c)
			held(t, sc, 1, "when it is over")
		},
		// The end of the first ones was taken for that of the second too.
		"while no rows come for the second time": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, query("copy t from stdin; copy t from stdin"))
			for range 2 {
				say(up, takes)
				expect(t, c, takes)
				after(3 * time.Second)
				held(t, sc, 0, "while the client is silent")
				say(c, copyDone)
				expect(t, up, copyDone)
				after(5 * time.Minute)
				held(t, sc, 1, "while the server works")
				say(up, pg('C', "COPY 0\x00"))
				expect(t, c, pg('C', "COPY 0\x00"))
			}
			say(up, ready('I'))
			hear(t, c)
			held(t, sc, 0, "when it is over")
		},
		"while rows that came at once are taken": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, query("copy t from stdin; copy t from stdin"))
			say(c, script(row, copyDone, row, copyDone))
			expect(t, up, script(row, copyDone, row, copyDone))
			for range 2 {
				say(up, takes)
				expect(t, c, takes)
				after(5 * time.Minute)
				held(t, sc, 1, "while the server works at what it got")
			}
		},
		"while rows come": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, copies)
			say(up, takes)
			expect(t, c, takes)
			for range 30 {
				after(900 * time.Millisecond)
				say(c, row)
				expect(t, up, row)
				held(t, sc, 1, "between rows")
			}
		},
		"while the answer is not read": func(t *testing.T) {
			t.Helper()
			sc, c, up := begin(t, query("select 1"))
			long := script(pg('D', strings.Repeat("x", 100_000)), pg('C', "x\x00"))
			say(up, long)
			after(3 * time.Second)
			held(t, sc, 0, "while the client does not read")
			sc.take()
			expect(t, c, long)
			held(t, sc, 2, "when it has read")
			say(up, ready('I'))
			hear(t, c)
			held(t, sc, 1, "when it is over")
		},
		// Each of them gave its permit to the next one, while the server was at work for all.
		"behind answers that nobody reads": func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(2, 0), postgresgate.Options{})
			long := pg('D', strings.Repeat("x", 100_000))
			admitted := 0
			var all []net.Conn
			for range 8 {
				c, up, _ := sc.login()
				all = append(all, c, up)
				say(c, query("select"))
				synctest.Wait()
				_ = up.SetReadDeadline(time.Now().Add(time.Millisecond))
				if _, err := readMessage(up); err == nil {
					admitted++
					say(up, long)
				}
				after(3 * time.Second)
			}
			if admitted != 3 {
				t.Errorf("%d sessions have work at the server; want 3, the limit and half of it", admitted)
			}
			held(t, sc, 2, "while nobody reads")
			for _, c := range all {
				_ = c.Close()
			}
			held(t, sc, 0, "when they have gone")
			c, up, _ := sc.login()
			say(c, query("select"))
			expect(t, up, query("select"))
			say(up, long)
			after(3 * time.Second)
			held(t, sc, 0, "by another one that does not read")
		},
		"before a Sync": func(t *testing.T) {
			t.Helper()
			unit := script(parse("", "insert into t values (1)"), bind(""), execute())
			sc, c, up := begin(t, unit)
			after(20 * time.Second)
			held(t, sc, 1, "while the server may be at work")
			after(15 * time.Second)
			held(t, sc, 0, "when the client has been silent for too long")
			say(c, sync0)
			expect(t, up, sync0)
			held(t, sc, 1, "when it goes on")
			after(5 * time.Minute)
			held(t, sc, 1, "while the server works")
			say(up, ready('I'))
			hear(t, c)
			held(t, sc, 0, "when it is over")
		},
	})
}

// The silence of a client that waits for its answer says nothing.
func TestSilenceOfWhoWaits(t *testing.T) {
	for name, first := range map[string][]byte{
		"simple": query("select pg_sleep(600)"), "extended": script(parse("", "select pg_sleep(600)"), bind(""), execute(), sync0),
		"behind a Close": script(closing("a"), query("select pg_sleep(600)")),
	} {
		bubble(t, map[string]func(t *testing.T){name: func(t *testing.T) {
			t.Helper()
			sc := stage(t, policy(1, 0), postgresgate.Options{})
			c, up, _ := sc.login()
			say(c, first)
			expect(t, up, first)
			time.Sleep(10 * time.Minute)
			if sc.free() {
				t.Error("the permit is free while the server works")
			}
		}})
	}
}
