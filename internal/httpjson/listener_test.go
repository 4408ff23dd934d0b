package httpjson_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/httpjson"
)

// pipes is a listener of which a test dials.
type pipes struct {
	dialed chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.dialed:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error { close(p.closed); return nil }
func (*pipes) Addr() net.Addr { return &net.TCPAddr{} }

// isOpen reports whether the server has not closed a connection.
func isOpen(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	timeout, ok := err.(net.Error) //nolint:errorlint // of the pipe itself
	return err == nil || ok && timeout.Timeout()
}

// Connections that do nothing once kept everybody out until they timed out. A new one
// takes the place of the one idle longest, whether it has asked before or not; one that
// is being answered is never closed for it, and nobody is let in beyond the bound.
func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pipes{make(chan net.Conn), make(chan struct{})}
		l := httpjson.NewListener(p, 3)
		release := make(chan struct{})
		srv := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/long" {
				<-release
			}
		})}
		l.Attach(srv, nil)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(l) }()
		dial := func(path string) net.Conn {
			here, there := net.Pipe()
			p.dialed <- there
			time.Sleep(time.Second)
			if path != "" {
				go func() { _, _ = here.Write([]byte("GET " + path + " HTTP/1.1\r\nHost: a\r\n\r\n")) }()
				synctest.Wait()
				if path != "/long" {
					_, _ = here.Read(make([]byte, 1000))
				}
			}
			time.Sleep(time.Second)
			return here
		}
		check := func(want ...bool) func(conns ...net.Conn) {
			return func(conns ...net.Conn) {
				t.Helper()
				for i, c := range conns {
					if got := isOpen(c); got != want[i] {
						t.Errorf("connection %d is open: %v, want %v", i, got, want[i])
					}
				}
			}
		}
		busy, asked, silent := dial("/long"), dial("/"), dial("")
		check(true, true, true)(busy, asked, silent)
		fourth := dial("/")
		check(true, false, true, true)(busy, asked, silent, fourth)
		fifth := dial("/long")
		check(true, false, true, true)(busy, silent, fourth, fifth)
		sixth := dial("/long")
		check(true, false, true, true)(busy, fourth, fifth, sixth)
		seventh, there := net.Pipe()
		p.dialed <- there // it is accepted, and waits
		time.Sleep(time.Minute)
		check(true, true, true)(busy, fifth, sixth)
		if l.CloseIdle() {
			t.Error("a connection that is answered was closed as idle")
		}
		for _, c := range []net.Conn{busy, fifth, sixth} {
			_ = c.SetReadDeadline(time.Time{})
			go func() { _, _ = c.Read(make([]byte, 1000)) }()
		}
		close(release)
		go func() { _, _ = seventh.Write([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n")) }()
		if n, err := seventh.Read(make([]byte, 1000)); n == 0 {
			t.Errorf("who waited is not answered: %v", err)
		}
		check(true)(seventh)
		if !l.CloseIdle() {
			t.Error("there is no idle connection to be closed")
		}
		_ = srv.Close()
		<-served
	})
}

// Bodies that came a byte a second, whether somebody read them or not, and answers that
// nobody took once kept everybody out too. They keep their place for a second when others
// want it; work that waits for nobody keeps it for as long as it takes, and so do streams.
func TestListenerClosesWhoStalls(t *testing.T) {
	for request, stalls := range map[string]bool{
		"POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n":   true,
		"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n": true,
		"GET /unread HTTP/1.1\r\nHost: a\r\n\r\n":                         true, // of which nobody reads the answer
		"POST /stream HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n": false,
		"GET /work HTTP/1.1\r\nHost: a\r\n\r\n":                           false,
	} {
		synctest.Test(t, func(t *testing.T) {
			p := &pipes{make(chan net.Conn), make(chan struct{})}
			l := httpjson.NewListener(p, 1)
			working, stop := context.WithCancel(t.Context())
			srv := &http.Server{ReadTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/read", "/stream":
					_, _ = io.ReadAll(r.Body)
				case "/work":
					<-working.Done()
				}
			})}
			l.Attach(srv, func(r *http.Request) bool { return r.URL.Path == "/stream" })
			served := make(chan error, 1)
			go func() { served <- srv.Serve(l) }()
			first, there := net.Pipe()
			p.dialed <- there
			go func() {
				_, err := io.WriteString(first, request)
				for err == nil && strings.HasPrefix(request, "POST") {
					time.Sleep(300 * time.Millisecond)
					_, err = first.Write([]byte("a"))
				}
			}()
			synctest.Wait()
			began := time.Now()
			second, there := net.Pipe()
			p.dialed <- there
			go func() { _, _ = io.WriteString(second, "GET / HTTP/1.1\r\nHost: a\r\n\r\n") }()
			_ = second.SetReadDeadline(time.Now().Add(10 * time.Second))
			_, err := second.Read(make([]byte, 1000))
			switch took := time.Since(began); {
			case stalls && (err != nil || took != time.Second):
				t.Errorf("%q: who wanted the place was answered after %v (%v), want 1s", request, took, err)
			case !stalls && err == nil:
				t.Errorf("%q lost its place after %v", request, took)
			}
			stop()
			_ = first.Close()
			_ = second.Close()
			_ = srv.Close()
			<-served
			time.Sleep(time.Second) // until who dribbles has noticed
		})
	}
}
