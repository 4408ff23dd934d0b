package relay_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// Nothing was forwarded to a backend that could not be dialled, so the next one
// is tried: a dead backend used to cost every second connection. It is left
// alone for five seconds, and tried all the same when there is no other.
func TestDialerTriesTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := map[string]bool{"a": true}
		var tried []string
		d := relay.NewDialer([]string{"a", "b"}, 0, func(_ context.Context, address string) (net.Conn, error) {
			tried = append(tried, address)
			if dead[address] {
				return nil, errDead
			}
			c, _ := net.Pipe()
			return c, nil
		})
		dial := func(want error, path ...string) {
			t.Helper()
			tried = nil
			c, at, err := d.Dial(t.Context(), "")
			if !errors.Is(err, want) || !slices.Equal(tried, path) || at != path[len(path)-1] {
				t.Errorf("Dial tried %v and returned %s, %v; want %v, %v", tried, at, err, path, want)
			}
			if err == nil {
				_ = c.Close()
			}
		}
		dial(nil, "a", "b")
		if got := d.Health().Status(time.Now()); got[0].Cause != "unreachable" || got[1].Cause != "" {
			t.Errorf("health %+v, want a failure of a alone", got)
		}
		dial(nil, "b")
		dial(nil, "b") // a's turn
		time.Sleep(6 * time.Second)
		dial(nil, "b")
		dial(nil, "a", "b")
		dead["b"] = true
		dial(errDead, "b", "a")
		dead["a"] = false
		dial(nil, "a") // both failed of late
		dial(nil, "a")
	})
}

var errDead = errors.New("dead")
