package admin_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// serve runs a server on a loopback port until the test ends.
func serve(t *testing.T, s *admin.Server) (url string, stop func() error) {
	t.Helper()
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listen: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, ln) }()
	stop = func() error { cancel(); return <-done }
	t.Cleanup(cancel)
	return "http://" + ln.Addr().String(), stop
}

// get returns the status and the body, which the test's end closes.
func get(t *testing.T, url string) (int, io.Reader) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatalf("request: %v", err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("GET %s: %v", url, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	return res.StatusCode, res.Body
}

// Stopping ends streams at once and returns nil.
func TestServe(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{})
	url, stop := serve(t, s)
	if code, _ := get(t, url+"/healthz"); code != http.StatusOK {
		t.Errorf("healthz = %d; want 200", code)
	}
	_, body := get(t, url+"/v1/events")
	stream := bufio.NewScanner(body)
	if !stream.Scan() || stream.Text() != "event: status" {
		t.Errorf("stream begins %q; want the whole status", stream.Text())
	}
	start := time.Now()
	if err := stop(); err != nil {
		t.Errorf("Serve = %v; want nil", err)
	}
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("stopping with an open stream took %v", took)
	}
}

// An address that others can reach is refused without a token.
func TestServeExposed(t *testing.T) {
	for name, tc := range map[string]struct {
		o    admin.Options
		want error
	}{
		"open":     {admin.Options{}, admin.ErrExposed},
		"token":    {admin.Options{Token: "x"}, nil},
		"insecure": {admin.Options{Insecure: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ln := &exposed{closed: make(chan struct{})}
			if err := newServer(t, newDaemon(&limiter.Policy{}), tc.o).Serve(ctx, ln); !errors.Is(err, tc.want) {
				t.Errorf("Serve on 0.0.0.0 = %v; want %v", err, tc.want)
			}
			<-ln.closed // whatever the answer, the listener is closed
		})
	}
}

// The token of a port that others reach is never dropped while it serves. A
// reload to a loopback address once did so, and the public socket stayed.
func TestTokenOfAnOpenPortStays(t *testing.T) {
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{Token: "secret"})
	ctx, cancel := context.WithCancel(t.Context())
	ln := &exposed{closed: make(chan struct{}), asked: make(chan struct{})}
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	<-ln.asked
	if err := s.SetToken(""); !errors.Is(err, admin.ErrExposed) {
		t.Errorf("SetToken(\"\") = %v; want ErrExposed", err)
	}
	if w := (call{method: "POST", path: "/v1/reload"}).do(t, s); w.Code != http.StatusUnauthorized {
		t.Errorf("reload without the token = %d; want 401", w.Code)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
}

// exposed is a listener on every address of the machine that nobody calls.
type exposed struct {
	closed, asked chan struct{} // asked is closed by the first Accept; nil = it is not
}

func (e *exposed) Accept() (net.Conn, error) {
	if e.asked != nil {
		close(e.asked)
	}
	<-e.closed
	return nil, net.ErrClosed
}

func (e *exposed) Close() error { close(e.closed); return nil }
func (*exposed) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 9462} }

// stream is a ResponseWriter whose events a test reads as they come.
type stream struct {
	header http.Header
	code   int
	events chan string
}

func newStream() *stream {
	return &stream{header: http.Header{}, events: make(chan string, 64)}
}

func (s *stream) Header() http.Header  { return s.header }
func (s *stream) WriteHeader(code int) { s.code = code }
func (*stream) Flush()                 {}
func (s *stream) Write(b []byte) (int, error) {
	s.events <- string(b)
	return len(b), nil
}

type seen struct {
	Ingresses []struct {
		Name       string
		InFlight   int
		Partitions []struct {
			Name     string
			InFlight int
		}
		Gone []string
	}
}

func parse(t *testing.T, message, kind string) seen {
	t.Helper()
	data, ok := strings.CutPrefix(message, "event: "+kind+"\ndata: ")
	if !ok || !strings.HasSuffix(data, "\n\n") {
		t.Fatalf("event %.60q; want one of kind %s", message, kind)
	}
	var s seen
	if err := json.Unmarshal([]byte(data), &s); err != nil {
		t.Fatalf("event %q: %v", data, err)
	}
	return s
}

func subscribe(ctx context.Context, s http.Handler) *stream {
	w := newStream()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/v1/events", http.NoBody)
	if err != nil {
		panic(err)
	}
	go func() { s.ServeHTTP(w, req); close(w.events) }()
	return w
}

// A reader gets everything first and then, each second, only what changed.
func TestEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(fixedAt(10))
		s := newServer(t, d, admin.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := subscribe(ctx, s)
		if first := parse(t, <-w.events, "status"); len(first.Ingresses) != 1 || len(first.Ingresses[0].Partitions) != 2 {
			t.Errorf("first event = %+v; want one ingress with default and overflow", first)
		}
		start := time.Now()
		if quiet := parse(t, <-w.events, "delta"); len(quiet.Ingresses[0].Partitions) != 0 {
			t.Errorf("second event = %+v; want no partition, since nothing changed", quiet)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("second event after %v; want 1s", took)
		}
		permit, err := d.gate.Admit(ctx, limiter.Request{Key: "tenant"})
		if err != nil {
			t.Fatalf("Admit: %v", err)
		}
		defer permit.End(limiter.Success)
		third := parse(t, <-w.events, "delta").Ingresses[0]
		if third.InFlight != 1 || len(third.Partitions) != 1 || third.Partitions[0].Name != "tenant" {
			t.Errorf("third event = %+v; want the new partition alone", third)
		}
		d.gate.Apply(&limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "all", Match: "*"}}})
		fourth := parse(t, <-w.events, "delta").Ingresses[0]
		if len(fourth.Gone) != 1 || fourth.Gone[0] != "tenant" {
			t.Errorf("fourth event = %+v; want tenant gone", fourth)
		}
		cancel()
		synctest.Wait()
	})
}

// Every page that is open once had the daemon read for itself. They share what
// the pulse has read, and each is told of every second once.
func TestEventsShareThePulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(fixedAt(10))
		s := newServer(t, d, admin.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		pulsing := make(chan struct{})
		go func() { s.Pulse(ctx); close(pulsing) }()
		time.Sleep(500 * time.Millisecond)
		var pages []*stream
		for range 5 {
			pages = append(pages, subscribe(ctx, s))
			time.Sleep(10 * time.Millisecond)
		}
		for _, p := range pages {
			parse(t, <-p.events, "status")
		}
		for range 10 {
			for _, p := range pages {
				parse(t, <-p.events, "delta")
			}
		}
		if n := d.snapshots.Load(); n != 11 {
			t.Errorf("5 pages and the pulse read %d times in 10 s; want 11", n)
		}
		cancel()
		synctest.Wait()
		<-pulsing
	})
}

// Who asks right after something has happened sees it, though the pulse does not
// know it yet.
func TestStatusIsFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDaemon(fixedAt(10))
		s := newServer(t, d, admin.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		pulsing := make(chan struct{})
		go func() { s.Pulse(ctx); close(pulsing) }()
		time.Sleep(10300 * time.Millisecond) // in the middle between two beats
		for i, path := range []string{"/v1/status", "/v1/status?ingress=orders", "/v1/status?ingress=orders"} {
			permit, err := d.gate.Admit(ctx, limiter.Request{Key: "tenant"})
			if err != nil {
				t.Fatal(err)
			}
			defer permit.End(limiter.Success)
			if in := answerOf[status.Document](t, s, path, 200).Ingresses[0]; in.InFlight != i+1 {
				t.Errorf("%s: %d in flight; want %d", path, in.InFlight, i+1)
			}
			time.Sleep(10 * time.Millisecond)
		}
		before := d.snapshots.Load()
		for range 100 {
			answerOf[status.Document](t, s, "/v1/status", 200)
		}
		if n := d.snapshots.Load() - before; n > 1 {
			t.Errorf("100 who ask cost %d readings; want one at most", n)
		}
		cancel()
		synctest.Wait()
		<-pulsing
	})
}

// Readers are bounded, and one that leaves makes room.
func TestEventsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, newDaemon(fixedAt(1)), admin.Options{MaxSubscribers: 1})
		ctx, cancel := context.WithCancel(t.Context())
		first := subscribe(ctx, s)
		parse(t, <-first.events, "status")
		if w := (call{method: "GET", path: "/v1/events"}).do(t, s); w.Code != 503 {
			t.Errorf("second reader = %d; want 503", w.Code)
		}
		cancel()
		synctest.Wait()
		again, stop := context.WithCancel(t.Context())
		parse(t, <-subscribe(again, s).events, "status")
		stop()
		synctest.Wait()
	})
}
