package mongogate_test

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// A drain that begins while a large command is on its way does not cut it in
// half.
func TestDrainLetsUploadFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		c, ended := sc.enter()
		f := msg(1, 0, cmd("insert"), sequence(bson.D{{Key: "a", Value: make([]byte, 1<<20)}}))
		const begun = 100_000
		say(c, f[:begun])
		up := sc.backend()
		got := make([]byte, len(f))
		if _, err := io.ReadFull(up, got[:begun]); err != nil {
			t.Fatal(err)
		}
		sc.drain()
		synctest.Wait()
		say(c, f[begun:])
		if n, err := io.ReadFull(up, got[begun:]); err != nil || !bytes.Equal(got, f) {
			t.Fatalf("after %d of %d bytes: %v", begun+n, len(f), err)
		}
		say(up, reply(1, ok()))
		expectFrame(t, c, reply(1, ok()))
		<-ended
	})
}
