package decide_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/limiter"
)

// Who may ask: those who know the token, by a bearer or, where Authorization is
// the client's own, by a header of its own.
func TestWhoMayAsk(t *testing.T) {
	const grant = `{"ingress":"orders"}`
	for name, tc := range map[string]struct {
		token string
		call  call
		want  int
	}{
		"no token asked for":      {"", call{method: "POST", path: "/v1/admissions", body: grant}, 201},
		"without it":              {"secret", call{method: "POST", path: "/v1/admissions", body: grant}, 401},
		"with it":                 {"secret", call{method: "POST", path: "/v1/admissions", body: grant, header: map[string]string{"Authorization": "bearer secret"}}, 201},
		"with a prefix of it":     {"secrets", call{method: "POST", path: "/v1/admissions", body: grant, header: map[string]string{"Authorization": "Bearer secret"}}, 401},
		"by another scheme":       {"secret", call{method: "POST", path: "/v1/admissions", body: grant, header: map[string]string{"Authorization": "Basic secret"}}, 401},
		"beside the client's own": {"secret", call{method: "GET", path: "/v1/authorize?ingress=orders", header: map[string]string{"Authorization": "Bearer client", decide.HeaderToken: "secret"}}, 204},
		"a wrong one beside":      {"secret", call{method: "GET", path: "/v1/authorize?ingress=orders", header: map[string]string{"Authorization": "Bearer secret", decide.HeaderToken: "client"}}, 401},
		"return":                  {"secret", call{method: "DELETE", path: "/v1/admissions/x"}, 401},
		"batch":                   {"secret", call{method: "POST", path: "/v1/admissions/batch", body: `{}`}, 401},
		"readiness":               {"secret", call{method: "GET", path: "/readyz"}, 200},
		"a form":                  {"", call{method: "POST", path: "/v1/admissions", body: grant, header: map[string]string{"Content-Type": "text/plain"}}, 415},
		"a body beyond the bound": {"", call{method: "POST", path: "/v1/admissions", body: `{"ingress":"` + strings.Repeat("x", 300<<10) + `"}`}, 413},
		"no such path":            {"", call{method: "GET", path: "/v1/status"}, 404},
		"no such method":          {"", call{method: "PUT", path: "/v1/admissions"}, 405},
		"no method there is":      {"", call{method: "FOO", path: "/v1/admissions"}, 405},
		"neither of both":         {"", call{method: "FOO", path: "/v1/status"}, 404}, // it was a 200 that said nothing
		"an escape in the path":   {"", call{method: "POST", path: "/v1/admissions/a%2Fb"}, 405},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t, newDaemon(&limiter.Policy{}), 0)
			if err := s.SetToken(tc.token); err != nil {
				t.Fatal(err)
			}
			w := tc.call.do(t, s)
			if w.Code != tc.want {
				t.Errorf("%s %s = %d %s; want %d", tc.call.method, tc.call.path, w.Code, w.Body, tc.want)
			}
			allow := map[bool]string{true: http.MethodDelete, false: http.MethodPost}[strings.Contains(tc.call.path, "%")]
			if got := w.Header().Get("Allow"); w.Code == http.StatusMethodNotAllowed && got != allow {
				t.Errorf("%s %s: Allow %q; want %s", tc.call.method, tc.call.path, got, allow)
			}
		})
	}
}

// Who drains tells those who ask to go elsewhere.
func TestNotReady(t *testing.T) {
	decider := decide.NewDecider(newDaemon(one()), 0)
	defer decider.Close()
	s := decide.NewServer(decider, decide.Options{Ready: func() bool { return false }})
	if w := (call{method: "GET", path: "/readyz"}).do(t, s); w.Code != http.StatusServiceUnavailable {
		t.Errorf("readyz = %d; want 503", w.Code)
	}
}

// The listener speaks HTTP/1.1 and HTTP/2 without TLS, and ends when it is told.
func TestServe(t *testing.T) {
	s := newServer(t, newDaemon(one()), 0)
	ln, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, ln) }()
	for _, http2 := range []bool{false, true} {
		var p http.Protocols
		p.SetHTTP1(!http2)
		p.SetUnencryptedHTTP2(http2)
		transport := &http.Transport{Protocols: &p}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+ln.Addr().String()+"/v1/authorize?ingress=orders", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			t.Fatalf("HTTP/2 %v: %v", http2, err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNoContent || (res.ProtoMajor == 2) != http2 {
			t.Errorf("answer %d over %s; want 204, HTTP/2 %v", res.StatusCode, res.Proto, http2)
		}
	}
	cancel()
	if err := <-served; err != nil {
		t.Errorf("Serve = %v; want nil", err)
	}
}

// An address that others can reach is refused without a token, and keeps the one
// that it has.
func TestServeExposed(t *testing.T) {
	for name, tc := range map[string]struct {
		o    decide.Options
		want error
	}{
		"open":     {decide.Options{}, decide.ErrExposed},
		"token":    {decide.Options{Token: "x"}, nil},
		"insecure": {decide.Options{Insecure: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			decider := decide.NewDecider(newDaemon(one()), 0)
			defer decider.Close()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			ln := &exposed{closed: make(chan struct{})}
			s := decide.NewServer(decider, tc.o)
			if err := s.Serve(ctx, ln); !errors.Is(err, tc.want) {
				t.Errorf("Serve on 0.0.0.0 = %v; want %v", err, tc.want)
			}
			<-ln.closed // whatever the answer, the listener is closed
			if err := s.SetToken(""); tc.o.Token != "" && !errors.Is(err, decide.ErrExposed) {
				t.Errorf("SetToken(\"\") = %v; want ErrExposed", err)
			}
		})
	}
}

// exposed is a listener on every address of the machine that nobody calls.
type exposed struct{ closed chan struct{} }

func (e *exposed) Accept() (net.Conn, error) {
	<-e.closed
	return nil, net.ErrClosed
}

func (e *exposed) Close() error { close(e.closed); return nil }
func (*exposed) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 9463} }
