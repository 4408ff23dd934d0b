package postgresgate_test

import (
	"net"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// A connection of which both sides sleep has no goroutine (docs/adr/0028), and what it
// keeps on the heap is small.
func TestSleepingConnectionsHaveNoGoroutine(t *testing.T) {
	g := limiter.New("pg", policy(9, 0), limiter.Options{})
	var once sync.Once
	var sessions *relay.Relay
	sleepers := crowd{
		each:   1, // the backend's, of this test
		others: 3, // two accept, and one watches all who sleep
		serve: func(c net.Conn, dial relay.DialFunc) {
			once.Do(func() {
				sessions = relay.New(g, relay.Options{Rest: time.Nanosecond, Dialer: relay.NewDialer([]string{"db:1"}, 0, dial)})
			})
			var serve func() (over bool)
			serve = sessions.Begin(t.Context(), c, plain{}, func() { go serve() }, func(error) {})
			serve()
		},
	}
	heap, stack := sleepers.idle(t)
	t.Logf("a connection that sleeps: %d bytes and %d of stack", heap, stack)
	if heap > 8<<10 {
		t.Errorf("a connection that sleeps keeps %d bytes, both ends of the test included; want at most 8 KiB", heap)
	}
}
