package mongogate_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/admitd/admitd/internal/ingress/mongogate"
)

// A key that comes again costs nothing, and one that is new the same whatever came
// before it. Each new key copied the map of all, up to 4,096 of them: 200 new tenants a
// second took a tenth of what a busy gate does. Past that bound every other key took a
// lock that all connections share.
func TestKeysAreMadeOnce(t *testing.T) {
	intern := mongogate.Intern()
	known := []byte("shop")
	intern(known)
	if n := testing.AllocsPerRun(100, func() { intern(known) }); n != 0 {
		t.Errorf("a key that is known: %v allocations, want none", n)
	}
	next, b := 0, make([]byte, 0, 16)
	for range 5000 {
		next++
		intern(strconv.AppendInt(b, int64(next), 10))
	}
	if n := testing.AllocsPerRun(100, func() { next++; intern(strconv.AppendInt(b, int64(next), 10)) }); n > 2 {
		t.Errorf("a new key after 5000 others: %v allocations, want 2 at most", n)
	}
}

// However many keys there are, and however many look at once, each becomes itself.
func TestKeysStayThemselves(t *testing.T) {
	intern := mongogate.Intern()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			b := make([]byte, 0, 16)
			for i := range 15_000 {
				b = fmt.Appendf(b[:0], "t%d", i%5000)
				if got := intern(b); got != string(b) {
					t.Errorf("%q became %q", b, got)
					return
				}
			}
		})
	}
	wg.Wait()
	if got := intern(nil); got != "" {
		t.Errorf("no key became %q", got)
	}
}
