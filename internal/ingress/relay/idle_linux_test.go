package relay_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// sockets makes pairs of TCP connections.
type sockets struct {
	t    *testing.T
	mu   sync.Mutex // guards the fields below, and that the pairs are pairs
	ln   net.Listener
	ours []net.Conn // the gate's ends
}

// pair returns the two ends of a connection, the gate's and another's.
func (s *sockets) pair() (ours, theirs net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ours, err := net.Dial("tcp", s.ln.Addr().String())
	if err == nil {
		theirs, err = s.ln.Accept()
	}
	if err != nil {
		s.t.Error(err)
		return net.Pipe()
	}
	s.t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	s.ours = append(s.ours, ours)
	return ours, theirs
}

// open returns how many of the gate's ends are not closed.
func (s *sockets) open() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.ours {
		if !errors.Is(c.SetReadDeadline(time.Time{}), net.ErrClosed) {
			n++
		}
	}
	return n
}

// dormitory is a house with sockets, in which sides are tired as soon as they wait.
type idleSessions struct {
	*house

	sockets sockets
}

func dorm(t *testing.T, o relay.Options) *idleSessions {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	d := &idleSessions{house: open(t, relay.Options{}), sockets: sockets{t: t, ln: ln}}
	o.Rest, o.Dialer = time.Nanosecond, d.dialer()
	d.relay = relay.New(d.gate, o)
	return d
}

// dialer connects to backends that come out of dials.
func (d *idleSessions) dialer() *relay.Dialer {
	return relay.NewDialer([]string{"backend"}, 0, func(context.Context, string) (net.Conn, error) {
		ours, theirs := d.sockets.pair()
		d.dials <- theirs
		return ours, nil
	})
}

// sleepy connects a client to a session that gives its goroutines back.
func (d *idleSessions) sleepy(p relay.Protocol) (net.Conn, <-chan error) {
	ours, theirs := d.sockets.pair()
	ended := make(chan error, 1)
	var serve func() bool
	serve = d.relay.Begin(d.ctx, ours, p, func() { go serve() }, func(err error) { ended <- err })
	go serve()
	return theirs, ended
}

// asleep waits until so many sides sleep.
func (d *idleSessions) asleep(n int) {
	d.t.Helper()
	d.until(fmt.Sprintf("%d sides sleep", n), func() bool { return d.relay.Asleep() == n })
}

// until waits for a state, and fails if it does not come.
func (d *idleSessions) until(what string, is func() bool) {
	d.t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			d.t.Fatalf("not in a minute: %s; %d sides sleep", what, d.relay.Asleep())
		}
	}
}

// asked is a session with a client and a backend that spoke with each other, and sleeps.
func (d *idleSessions) asked() (client, backend net.Conn, ended <-chan error) {
	d.t.Helper()
	client, ended = d.sleepy(&toy{})
	say(client, toyMessage('q', nil))
	backend = d.backend()
	hear(d.t, backend)
	say(backend, toyMessage('a', nil))
	hear(d.t, client)
	d.asleep(2)
	return client, backend, ended
}

// Whatever happens at either end of a session of which nobody is awake happens as if
// its goroutines had waited for it.
func TestWhatHappensToSleepers(t *testing.T) {
	cases := map[string]struct {
		happens func(t *testing.T, h *idleSessions, client, backend net.Conn)
		want    error // nil = the session goes on, and sleeps again
	}{
		"a question": {happens: func(t *testing.T, _ *idleSessions, client, backend net.Conn) {
			t.Helper()
			say(client, toyMessage('q', []byte("once more")))
			if got := hear(t, backend); !bytes.Equal(got, toyMessage('q', []byte("once more"))) {
				t.Errorf("the backend heard %q", got)
			}
			say(backend, toyMessage('a', []byte("again")))
			if got := hear(t, client); !bytes.Equal(got, toyMessage('a', []byte("again"))) {
				t.Errorf("the client heard %q", got)
			}
		}},
		"the backend speaks": {happens: func(t *testing.T, _ *idleSessions, client, backend net.Conn) {
			t.Helper()
			say(backend, toyMessage('i', []byte("by the way")))
			if got := hear(t, client); !bytes.Equal(got, toyMessage('i', []byte("by the way"))) {
				t.Errorf("the client heard %q", got)
			}
		}},
		"the client leaves": {
			happens: func(_ *testing.T, _ *idleSessions, client, _ net.Conn) { _ = client.Close() }, want: io.EOF,
		},
		"the backend leaves": {
			happens: func(_ *testing.T, _ *idleSessions, _, backend net.Conn) { _ = backend.Close() }, want: relay.ErrBackendGone,
		},
		"a drain": {
			happens: func(_ *testing.T, h *idleSessions, _, _ net.Conn) { h.drain() }, want: relay.ErrDrained,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := dorm(t, relay.Options{})
			client, backend, ended := h.asked()
			tc.happens(t, h, client, backend)
			if tc.want == nil {
				h.asleep(2)
				_ = client.Close()
				<-ended
			} else if err := <-ended; !errors.Is(err, tc.want) {
				t.Errorf("the session ended with %v, want %v", err, tc.want)
			}
			h.over()
		})
	}
}

// over waits until nobody sleeps, and fails unless every permit came back and both
// ends of every session are closed.
func (d *idleSessions) over() {
	d.t.Helper()
	d.asleep(0)
	if !d.free() {
		d.t.Error("a permit is held for a session that is over")
	}
	if n := d.sockets.open(); n > 0 {
		d.t.Errorf("%d connections of sessions that are over are open", n)
	}
}

// answer answers every question with what it said, now and then after a word about
// something else, until the client leaves.
func answer(c net.Conn, dice *rand.Rand) {
	defer c.Close()
	head := make([]byte, 5)
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		b := make([]byte, int(head[3])<<8|int(head[4]))
		if _, err := io.ReadFull(c, b[5:]); err != nil {
			return
		}
		if dice.IntN(4) == 0 {
			_, _ = c.Write(toyMessage('i', nil))
		}
		if dice.IntN(2) == 0 {
			time.Sleep(time.Duration(dice.IntN(200)) * time.Microsecond) // only to be at work while others sleep
		}
		if _, err := c.Write(toyMessage('a', b[5:])); err != nil {
			return
		}
	}
}

// However sleeping and waking fall together with questions, answers, pieces of them
// and ends, every byte arrives and every permit comes back.
func TestNothingIsLostInSleep(t *testing.T) {
	h := dorm(t, relay.Options{})
	var wg sync.WaitGroup
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n := range uint64(16) {
		client, ended := h.sleepy(&toy{})
		say(client, toyMessage('n', nil))
		b := h.backend()
		hear(t, b)
		wg.Go(func() { answer(b, rand.New(rand.NewPCG(seed, 100+n))) })
		wg.Go(func() {
			dice := rand.New(rand.NewPCG(seed, n))
			for range 40 {
				ask(t, client, dice)
			}
			_ = client.Close()
			if err := <-ended; !errors.Is(err, io.EOF) {
				t.Errorf("the session ended with %v", err)
			}
		})
	}
	wg.Wait()
	h.over()
}

// ask asks one question, in pieces now and then, and checks its answer.
func ask(t *testing.T, c net.Conn, dice *rand.Rand) {
	t.Helper()
	body := bytes.Repeat([]byte{byte(dice.Uint32())}, dice.IntN(60_000))
	q := toyMessage('q', body)
	cut := dice.IntN(len(q))
	said := make(chan struct{})
	go func() {
		defer close(said)
		_, _ = c.Write(q[:cut])
		if dice.IntN(2) == 0 {
			time.Sleep(time.Duration(dice.IntN(200)) * time.Microsecond) // only so that the pieces arrive as such
		}
		_, _ = c.Write(q[cut:])
	}()
	defer func() { <-said }()
	for {
		got, err := listenTo(c)
		switch {
		case err != nil:
			t.Errorf("read: %v", err)
			return
		case got[0] == 'i':
			continue
		case got[0] == 'a' && !bytes.Equal(got[5:], body):
			t.Errorf("the answer to %d bytes has %d, and others", len(body), len(got)-5)
		}
		return
	}
}

// When everybody wakes at once, everybody is served.
func TestManyWakeAtOnce(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	n := int(min(500, limit.Cur/5)) // twice as many sides, and four descriptors each
	h := dorm(t, relay.Options{})
	clients, ends := make([]net.Conn, n), make([]<-chan error, n)
	for i := range n {
		clients[i], ends[i] = h.sleepy(&toy{})
		say(clients[i], toyMessage('n', nil))
		b := h.backend()
		hear(t, b)
		go answer(b, rand.New(rand.NewPCG(1, uint64(i))))
	}
	h.asleep(2 * n)
	for _, c := range clients {
		_, _ = c.Write(toyMessage('q', []byte("good morning")))
	}
	for _, c := range clients {
		for got := hear(t, c); got[0] == 'i'; {
			got = hear(t, c)
		}
	}
	h.asleep(2 * n)
	h.drain()
	for _, ended := range ends {
		<-ended
	}
	h.over()
}

// late is a toy that thinks about a question until the time to be tired is over.
type late struct {
	toy

	rest time.Duration
}

func (p *late) Inspect(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if m.Bytes[0] == 'q' {
		time.Sleep(2 * p.rest)
	}
	return p.toy.Inspect(s, m)
}

// The bound until a side is tired was left on the connection while a question waited
// for its permit. It ended the watch over the client, which could leave unnoticed.
func TestWaitingLongerThanTired(t *testing.T) {
	const rest = 50 * time.Millisecond
	d := dorm(t, relay.Options{})
	d.gate.Apply(&limiter.Policy{Default: limiter.PartitionPolicy{
		NewLimit: func() limiter.Limit { return one{} }, Signature: "queue", QueueDepth: 1, MaxWait: time.Hour,
	}})
	d.relay = relay.New(d.gate, relay.Options{Rest: rest, Dialer: d.dialer()})
	first, _ := d.sleepy(&toy{})
	say(first, toyMessage('q', nil))
	hear(t, d.backend())
	second, ended := d.sleepy(&late{rest: rest})
	say(second, toyMessage('n', nil))
	hear(t, d.backend())
	say(second, toyMessage('q', nil))
	d.until("the second question queues", func() bool { return d.gate.Status().Queued == 1 })
	_ = second.Close()
	if err := <-ended; !errors.Is(err, relay.ErrClientGone) {
		t.Errorf("the session of a client that left its place in the line ended with %v, want ErrClientGone", err)
	}
}
