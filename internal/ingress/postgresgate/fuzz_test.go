package postgresgate_test

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// A start-up message is bounded before it is read, and read without a panic.
func FuzzStartup(f *testing.F) {
	f.Add(hello("database", "shop", "options", "-c statement_timeout=5s"))
	f.Add(startupMessage(80877103, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		n, err := postgresgate.StartupSize(b)
		if n < 0 || n > 10_000 || err != nil && n != 0 {
			t.Fatalf("startupSize(%q) = %d, %v", b, n, err)
		}
		if n > 0 && len(b) >= n {
			user, database, application, timeout, _ := postgresgate.Startup(b[:n])
			if len(user) > 255 || len(database) > 255 || len(application) > 255 || timeout < 0 {
				t.Fatalf("parseStartup(%q) = %d, %d, %d bytes, %v", b, len(user), len(database), len(application), timeout)
			}
		}
	})
}

// Whatever both sides send, the gate neither panics nor keeps a permit.
func FuzzMessages(f *testing.F) {
	f.Add(script(query("select 1"), parse("a", "select 1"), bind("a"), execute(), sync0), script(pg('C', "x\x00"), ready('I'), pg('1'), pg('2'), ready('T')))
	f.Add(script(query("copy t from stdin"), pg('d', "row"), copyDone), script(pg('G', "\x00\x00\x00"), failure("53200", "no"), ready('I')))
	f.Fuzz(func(t *testing.T, fromClient, fromServer []byte) {
		synctest.Test(t, func(t *testing.T) {
			sc := stage(t, policy(1000, 0), postgresgate.Options{})
			c, up, ended := sc.login()
			go drainInto(c)
			go drainInto(up)
			say(c, fromClient)
			say(up, fromServer)
			time.Sleep(time.Second)
			_, _ = c.Close(), up.Close()
			<-ended
			if held := sc.held(); held != 0 {
				t.Errorf("%d permits are held after the end", held)
			}
		})
	})
}

func drainInto(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
