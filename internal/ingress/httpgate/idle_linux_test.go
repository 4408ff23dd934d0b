package httpgate_test

import (
	"io"
	"net"
	"net/http"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// 8,000 idle connections stay within the bound on memory. The gate keeps the last of
// few descriptors from its clients: a test that was cut off so took it for a defect.
func TestIdleConnections(t *testing.T) {
	const n, files = 8000, 18_000 // two for each, and what is kept
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < files || testing.Short() {
		t.Skipf("opens %d descriptors, of %d, %v", files, limit.Cur, err)
	}
	backend := serveHTTP(t, func(http.ResponseWriter, *http.Request) {})
	var o httpgate.Options
	o.Ingress.Connections = ingress.Connections{MaxOpen: n}
	g := start(t, backend, limiter.Policy{}, o)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range n {
		c, err := net.Dial("tcp", g.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if _, err := io.ReadAtLeast(c, make([]byte, 512), 60); err != nil {
			t.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	perConn := (after.HeapInuse + after.StackInuse - before.HeapInuse - before.StackInuse) / n
	t.Logf("%d idle connections: %d bytes each", n, perConn)
	if perConn > 25<<10 {
		t.Errorf("%d bytes per idle connection, want at most 25 KiB", perConn)
	}
}
