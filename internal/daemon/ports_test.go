package daemon_test

import (
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/daemon"
)

// The ports beside the gates take descriptors of the same account, so that clients
// and callers see of each other.
func TestPortsTakeDescriptors(t *testing.T) {
	d, _ := listening(t, daemon.Options{}, "a", "127.0.0.1:0")
	before := d.PromisedDescriptors()
	c, err := net.Dial("tcp", d.AdminAddress().String())
	if err != nil {
		t.Fatal(err)
	}
	for d.PromisedDescriptors() != before+1 {
		time.Sleep(time.Millisecond)
	}
	_ = c.Close()
	for d.PromisedDescriptors() != before {
		time.Sleep(time.Millisecond)
	}
}
