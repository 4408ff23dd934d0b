package mongogate_test

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// A drain that begins while a large command is on its way does not cut it in
// half.
func TestDrainLetsUploadFinish(t *testing.T) {
	b := startScript(t)
	_, addr, drain := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	f := msg(1, 0, cmd("insert"), sequence(bson.D{{Key: "a", Value: make([]byte, 1<<20)}}))
	write(t, c, f[:100_000])
	up := b.accept(t)
	got := make([]byte, 0, len(f))
	for len(got) < 100_000 {
		n, err := up.Read(got[len(got):cap(got)])
		if err != nil {
			t.Fatal(err)
		}
		got = got[:len(got)+n]
	}
	drained := make(chan error, 1)
	go func() { drained <- drain() }()
	<-time.After(50 * time.Millisecond)
	sent := make(chan error, 1)
	go func() { _, err := c.Write(f[100_000:]); sent <- err }()
	for len(got) < len(f) {
		n, err := up.Read(got[len(got):cap(got)])
		if err != nil {
			t.Fatalf("after %d of %d bytes: %v", len(got), len(f), err)
		}
		got = got[:len(got)+n]
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	write(t, up, reply(1, ok()))
	expectFrame(t, c, reply(1, ok()))
	if err := <-drained; err != nil {
		t.Errorf("Drain: %v", err)
	}
}
