package selection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/admitd/admitd/labels"
)

// DefaultCheckTimeout is how long a server may take to answer a hello.
const DefaultCheckTimeout = 10 * time.Second

// ErrHello is matched by the error of a server that answered a hello with
// something else.
var ErrHello = errors.New("selection: server did not say hello")

// errOverloaded: the server refused even the hello, so it is alive.
var errOverloaded = errors.New("overloaded")

// CheckOptions say how servers are asked. The zero value is ready for use:
// plain HTTP and [DefaultCheckTimeout].
type CheckOptions struct {
	// Client sends the requests; nil = a client with one idle connection per
	// server, which follows no redirects.
	Client *http.Client
	Scheme string // "http" or "https"; empty = http
	// Timeout is how long one check may take, connecting included. 0 =
	// [DefaultCheckTimeout].
	Timeout time.Duration
}

// prober asks one server at a time. It is safe for concurrent use.
type prober struct {
	client  *http.Client
	own     bool // client was made here
	scheme  string
	timeout time.Duration
}

func newProber(o CheckOptions) *prober {
	p := &prober{client: o.Client, scheme: o.Scheme, timeout: o.Timeout}
	if p.scheme == "" {
		p.scheme = "http"
	}
	if p.timeout <= 0 {
		p.timeout = DefaultCheckTimeout
	}
	if p.client == nil {
		p.own = true
		p.client = &http.Client{
			Transport: &http.Transport{
				Proxy: http.ProxyFromEnvironment, MaxIdleConnsPerHost: 1, ForceAttemptHTTP2: true,
				IdleConnTimeout: 2 * DefaultHeartbeat, TLSHandshakeTimeout: p.timeout,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	return p
}

// close gives up the idle connections.
func (p *prober) close() {
	if p.own {
		p.client.CloseIdleConnections()
	}
}

// answer is what a check yields.
type answer struct {
	hello     labels.Hello
	roundTrip time.Duration // from a usable connection to the answer: dialing is not latency
	at        time.Time
}

// ask sends one hello. errOverloaded in the error's chain means that the
// server refused to answer because it is busy.
func (p *prober) ask(ctx context.Context, address string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	start := time.Now()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { start = time.Now() },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.scheme+"://"+address+labels.HelloPath, http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	req.Header.Set(labels.HeaderBackpressure, "1")
	resp, err := p.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	at := time.Now()
	body, err := io.ReadAll(io.LimitReader(resp.Body, labels.MaxHello+1))
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	if resp.StatusCode != http.StatusOK {
		if doc, err := labels.Parse(body); err == nil && doc.Reason != labels.Draining {
			return answer{}, fmt.Errorf("%w: %s: %w", ErrHello, doc.Errmsg, errOverloaded)
		}
		return answer{}, fmt.Errorf("%w: status %s", ErrHello, resp.Status)
	}
	h, err := labels.ParseHello(body)
	if err != nil {
		return answer{}, fmt.Errorf("%w: %w", ErrHello, err)
	}
	return answer{hello: h, roundTrip: at.Sub(start), at: at}, nil
}

// check asks a server and takes the answer into the view. It reports whether
// the server turned from available to unknown. A server that is too busy for a
// hello keeps what is known of it: to drop it would send its load, and
// then that of the next, to ever fewer servers.
func (p *prober) check(ctx context.Context, v *View, address string) (lost bool, err error) {
	a, err := p.ask(ctx, address)
	if err == nil {
		v.Answered(address, a.hello, a.roundTrip, a.at)
		return false, nil
	}
	if ctx.Err() != nil { // the check was given up, which says nothing about the server
		return false, ctx.Err()
	}
	s := v.Topology().Server(address)
	known := s != nil && s.Type.Available()
	if known && errors.Is(err, errOverloaded) {
		return false, nil
	}
	v.MarkUnknown(address, err)
	return known, err
}
