package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/internal/pulsarwire"
)

// errRefused is what a client of a wire protocol gets from a gate that refuses.
var errRefused = errors.New("refused")

// session is a connection over which one request is asked at a time.
type session interface {
	ask(ctx context.Context) error
	io.Closer
}

// protocol is what differs between the wire protocols. Their models answer well, or not.
type protocol struct {
	name    string
	options string
	// connections of a client, the answers of the backend to each of them before it
	// asks anything, and whether requests are held instead of refused: then each time
	// that one finds no permit counts as a rejection.
	connections, greetings int
	holds                  bool
	serve                  func(ctx context.Context, ln net.Listener, address string, work func(ctx context.Context) bool)
	dial                   func(ctx context.Context, address string) (session, error)
}

func protocols() map[string]*protocol {
	return map[string]*protocol{
		"mongodb": {
			name: "mongodb", connections: 1, options: "mongodb: { topology: { mode: direct } }",
			serve: func(ctx context.Context, ln net.Listener, _ string, work func(ctx context.Context) bool) {
				_ = modelmongo.NewFor(work).Serve(ctx, ln)
			},
			dial: func(ctx context.Context, address string) (session, error) {
				c, err := modelmongo.Dial(ctx, address, false)
				return mongoSession{c}, err
			},
		},
		"postgres": {
			name: "postgres", connections: 1,
			serve: func(ctx context.Context, ln net.Listener, _ string, work func(ctx context.Context) bool) {
				_ = modelpostgres.NewFor(work).Serve(ctx, ln)
			},
			dial: func(ctx context.Context, address string) (session, error) {
				c, err := modelpostgres.Dial(ctx, address)
				return postgresSession{c}, err
			},
		},
		"pulsar": {
			name: "pulsar", connections: 2, greetings: 1, holds: true,
			// The broker works on a message after it has told of it.
			serve: func(ctx context.Context, ln net.Listener, address string, work func(ctx context.Context) bool) {
				_ = modelpulsar.New(modelpulsar.Options{
					URL: "pulsar://" + address, Workers: 1000, ServiceTime: wireService,
					Sent: func(string, pulsarwire.Send, int) { go work(ctx) },
				}).Serve(ctx, ln)
			},
			dial: func(ctx context.Context, address string) (session, error) {
				c, err := pulsarproducer.Connect(ctx, address, pulsarproducer.Options{})
				if err != nil {
					return nil, err
				}
				p, err := c.NewProducer(ctx, "truth", pulsarproducer.ProducerOptions{})
				if err != nil {
					c.Close()
				}
				return pulsarSession{c, p}, err
			},
		},
	}
}

// wireService is how long a broker takes for a message.
const wireService = 20 * time.Millisecond

type mongoSession struct{ *modelmongo.Client }

func (s mongoSession) ask(context.Context) error {
	find := bsoncore.NewDocumentBuilder().AppendString("find", "things").AppendString("$db", "truth").Build()
	err := s.Once(find)
	if e, ok := errors.AsType[*modelmongo.Error](err); ok && len(e.Labels) > 0 {
		return errRefused
	}
	return err
}

type postgresSession struct{ *modelpostgres.Client }

func (s postgresSession) ask(context.Context) error {
	err := s.Query("select 1")
	if e, ok := errors.AsType[*modelpostgres.Error](err); ok && len(e.Labels) > 0 {
		return errRefused
	}
	return err
}

type pulsarSession struct {
	client   *pulsarproducer.Client
	producer *pulsarproducer.Producer
}

func (s pulsarSession) ask(ctx context.Context) error { return s.producer.Send(ctx, []byte("x")) }

// Close implements io.Closer.
func (s pulsarSession) Close() error {
	s.client.Close()
	return nil
}

// server is the model of a wire protocol's backend. It cannot know which request is
// before it: the one that has been under way for longest is taken for it, which is the
// same in sums.
type server struct {
	ledger  *ledger
	address string
	work    func(since time.Duration) bool
	began   func() time.Time
}

// serve begins to serve.
func (s *server) serve(ctx context.Context, p *protocol) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s.address = ln.Addr().String()
	go p.serve(ctx, ln, s.address, func(context.Context) bool {
		r := s.ledger.arrive()
		ok := s.work(time.Since(s.began()))
		s.ledger.finish(r, ok)
		return ok
	})
	return nil
}

// arrive notes that a request is at the backend.
func (l *ledger) arrive() *request {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.requests {
		if r.arrived.IsZero() && !r.sent.IsZero() && (r.ended.IsZero() || r.left || r.backend) {
			r.arrived = time.Now()
			r.read = r.arrived
			return r
		}
	}
	l.strays++
	return nil
}

// finish notes that the backend has answered, or failed to.
func (l *ledger) finish(r *request, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r == nil {
		return
	}
	r.done = time.Now()
	if ok {
		r.answered = 200
	}
}

// sessions are the clients of a wire protocol: a connection for each request that is under way.
type sessions struct {
	ledger   *ledger
	protocol *protocol
	address  string
	refused  refusal // what a refusal is known to be

	mu      sync.Mutex // guards the fields below
	idle    []session
	problem error // of the last connection that could not be made
}

// send implements [load].
func (w *sessions) send(ctx context.Context, streams []stream, lasts time.Duration) {
	var wg sync.WaitGroup
	for i := range streams {
		wg.Go(func() { each(ctx, &streams[i], lasts, func(int) { w.ask(ctx, &streams[i]) }) })
	}
	wg.Wait()
}

// take returns a connection that is idle, or a new one.
func (w *sessions) take(ctx context.Context) (session, error) {
	w.mu.Lock()
	if n := len(w.idle); n > 0 {
		s := w.idle[n-1]
		w.idle = w.idle[:n-1]
		w.mu.Unlock()
		return s, nil
	}
	w.mu.Unlock()
	s, err := w.protocol.dial(ctx, w.address)
	if err == nil {
		w.ledger.connection(1)
	}
	return s, err
}

// ask sends one request.
func (w *sessions) ask(ctx context.Context, s *stream) {
	c, err := w.take(ctx)
	if err != nil {
		w.mu.Lock()
		w.problem = err
		w.mu.Unlock()
		return
	}
	r := &request{written: true, sent: time.Now()}
	id := w.ledger.add(r)
	left := make(chan bool, 1)
	if s.patience > 0 {
		leave := time.AfterFunc(s.patience, func() { left <- true; _ = c.Close() })
		defer leave.Stop()
	}
	err = c.ask(ctx)
	now := time.Now()
	w.ledger.change(id, func(r *request) {
		r.ended = now
		switch {
		case err == nil:
			r.status, r.backend = 200, true
		case errors.Is(err, errRefused):
			r.status, r.refused = 503, w.refused
		case len(left) > 0:
			r.left = true
		default:
			r.status = 502
		}
	})
	if err != nil && !errors.Is(err, errRefused) {
		_ = c.Close() // it is broken
		w.ledger.connection(-1)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle = append(w.idle, c)
}

// end implements [load].
func (w *sessions) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.idle {
		_ = c.Close()
		w.ledger.connection(-1)
	}
	w.idle = nil
}

// wirePhases are those of the wire protocols.
func wirePhases() (all []*phase) {
	for _, name := range []string{"mongodb", "postgres", "pulsar"} {
		p := protocols()[name]
		well := func(d time.Duration) func(time.Duration) bool {
			return func(time.Duration) bool { time.Sleep(d); return true }
		}
		all = append(all, &phase{name: name + "-calm", protocol: p, work: well(20 * ms), ingress: "partitions: { default: { " + fixed(1000) + " } }", limit: 1000, streams: []stream{{rate: 80}}, verdict: []string{"admitting"}})
		if name == "pulsar" {
			continue // it refuses nobody
		}
		all = append(all,
			&phase{
				name: name + "-overload", protocol: p, work: well(40 * ms), ingress: "partitions: { default: { " + fixed(3) + " } }", limit: 3,
				streams: []stream{{rate: 150}}, verdict: []string{"refusing"}, says: []string{"concurrency limit"},
				refused: refusal{"concurrency_limit", "partition", "default"},
			},
			&phase{
				name: name + "-rate", protocol: p, work: well(20 * ms), ingress: "requests: { rate: 40 }, partitions: { default: { " + fixed(1000) + " } }", streams: []stream{{rate: 100}},
				verdict: []string{"refusing"}, says: []string{"request rate"}, refused: refusal{"request_rate", "ingress", "default"},
			},
			&phase{
				name: name + "-left", protocol: p, work: well(200 * ms), ingress: "partitions: { default: { " + fixed(1000) + " } }", limit: 1000,
				streams: []stream{{rate: 60, patience: 80 * ms}, {rate: 10}}, verdict: []string{"callers_leave"},
			},
			&phase{
				name: name + "-hangs-up", protocol: p, ingress: "partitions: { default: { " + fixed(1000) + " } }", limit: 1000, streams: []stream{{rate: 60}}, verdict: []string{"backend_fails"}, moves: true,
				work: everyFourth(well(20 * ms)),
			},
		)
	}
	return all
}

// everyFourth fails every fourth time.
func everyFourth(work func(time.Duration) bool) func(time.Duration) bool {
	var mu sync.Mutex
	n := 0
	return func(since time.Duration) bool {
		mu.Lock()
		n++
		fails := n%4 == 0
		mu.Unlock()
		return work(since) && !fails
	}
}

// wireText is the configuration of an ingress of a wire protocol.
func (p *protocol) wireText(listen, backend string) string {
	text := fmt.Sprintf("protocol: %s, listen: %q, backend: %q", p.name, listen, backend)
	if p.options != "" {
		text += ", " + p.options
	}
	return text
}
