package selection_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/admitd/admitd/labels"
)

var errRefused = errors.New("connection refused")

// fakeNet is a network in a bubble: servers that answer hello after a time, or
// not at all. Nothing listens at an address that is not there.
type fakeNet struct {
	mu      sync.Mutex // guards the fields below
	servers map[string]*fakeServer
	asked   []askedAt
	start   time.Time
}

type fakeServer struct {
	hello  labels.Hello
	takes  time.Duration
	status int    // 0 = 200
	body   string // instead of the hello
}

type askedAt struct {
	Address string
	At      time.Duration
}

func newFakeNet(servers map[string]*fakeServer) *fakeNet {
	return &fakeNet{servers: servers, start: time.Now()}
}

func (n *fakeNet) client() *http.Client { return &http.Client{Transport: n} }

// setA changes the server at a:1, which is the one that tests change; nil
// takes it away.
func (n *fakeNet) setA(s *fakeServer) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.servers["a:1"] = s
}

// asks returns when a server was asked, since the start.
func (n *fakeNet) asks(address string) []time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	var at []time.Duration
	for _, a := range n.asked {
		if a.Address == address {
			at = append(at, a.At)
		}
	}
	return at
}

func (n *fakeNet) visit(address string) *fakeServer {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, askedAt{address, time.Since(n.start)})
	return n.servers[address]
}

// RoundTrip implements [http.RoundTripper].
func (n *fakeNet) RoundTrip(r *http.Request) (*http.Response, error) {
	s := n.visit(r.URL.Host)
	if s == nil {
		return nil, errRefused
	}
	select {
	case <-time.After(s.takes):
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	body := []byte(s.body)
	if s.body == "" {
		body = s.hello.AppendJSON(nil)
	}
	status := s.status
	if status == 0 {
		status = http.StatusOK
	}
	if r.URL.Path != labels.HelloPath || r.Header.Get(labels.HeaderBackpressure) != "1" {
		status = http.StatusBadRequest
	}
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Request: r,
		Body: io.NopCloser(bytes.NewReader(body)), Header: http.Header{},
	}, nil
}
