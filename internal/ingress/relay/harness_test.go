package relay_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// toy is the smallest protocol that needs a relay. A message is its kind, its
// whole length in four bytes, and whatever. Clients send questions 'q', which
// are admitted and answered by 'a', notes 'n', which are not answered, and 'w',
// of which the answer may never come. The backend may send 'i' at any time.
type toy struct {
	need int // bytes that Inspect and Landed want; 0 = all
	busy bool
}

func (p *toy) Size(_ relay.Side, b []byte) (total, need int, err error) {
	if len(b) < 5 {
		return 0, 0, nil
	}
	total = int(binary.BigEndian.Uint32(b[1:]))
	if total < 5 {
		return 0, 0, errToy
	}
	need = total
	if p.need > 0 {
		need = p.need
	}
	return total, need, nil
}

var errToy = errors.New("toy: no message")

func (p *toy) Inspect(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if s.Owes() {
		return relay.Verdict{Action: relay.Wait}, nil
	}
	switch m.Bytes[0] {
	case 'n':
		return relay.Verdict{}, nil
	case 'w':
		return relay.Verdict{Expect: true, Idle: true}, nil
	}
	err := s.Admit(limiter.Request{})
	if _, refused := errors.AsType[*limiter.Rejection](err); refused {
		return relay.Verdict{Action: relay.Swallow, Answer: toyMessage('r', nil)}, nil
	}
	return relay.Verdict{Expect: true}, err
}

func (p *toy) Landed(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if m.Bytes[0] == 'i' {
		return relay.Verdict{}, nil
	}
	s.End(limiter.Success)
	return relay.Verdict{Last: true}, nil
}

func (p *toy) Done(answered bool) bool { return answered || !p.busy }

// toyMessage builds a message.
func toyMessage(kind byte, body []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind}, uint32(5+len(body)))
	return append(b, body...)
}

// house is a relay with a limit of one, in a bubble.
type house struct {
	t       *testing.T
	gate    *limiter.Gate
	relay   *relay.Relay
	health  *ingress.Health
	dials   chan net.Conn
	dialing func() error // what a dial fails with; nil = it does not
	drain   context.CancelFunc
	ctx     context.Context // of all sessions; done when the drain begins
}

func open(t *testing.T, o relay.Options) *house {
	t.Helper()
	h := &house{t: t, dials: make(chan net.Conn, 8)}
	h.gate = limiter.New("test", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return one{} }}},
		limiter.Options{})
	o.Dialer = relay.NewDialer([]string{"backend"}, 0, func(context.Context, string) (net.Conn, error) {
		if h.dialing != nil {
			return nil, h.dialing()
		}
		near, far := net.Pipe()
		h.dials <- far
		return near, nil
	})
	h.relay, h.health = relay.New(h.gate, o), o.Dialer.Health()
	h.ctx, h.drain = context.WithCancel(t.Context())
	t.Cleanup(h.drain)
	return h
}

// one is a limit of one.
type one struct{}

func (one) Current() int                            { return 1 }
func (one) Observe(int64, time.Duration, int, bool) {}

// enter connects a client. The session's end comes on the channel.
func (h *house) enter(p relay.Protocol) (net.Conn, <-chan error) {
	near, far := net.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- h.relay.Serve(h.ctx, far, p) }()
	h.t.Cleanup(func() { _ = near.Close() })
	return near, ended
}

// backend returns the backend's end of the next connection.
func (h *house) backend() net.Conn {
	c := <-h.dials
	h.t.Cleanup(func() { _ = c.Close() })
	return c
}

// free reports whether a permit is free.
func (h *house) free() bool {
	p, err := h.gate.TryAdmit(h.gate.Now(), limiter.Request{MaxWait: -1})
	p.End(limiter.Ignored)
	return err == nil
}

// say writes without waiting for whoever reads.
func say(c net.Conn, b []byte) { go func() { _, _ = c.Write(b) }() }

// hear reads one message.
func hear(t *testing.T, c net.Conn) []byte {
	t.Helper()
	b, err := listenTo(c)
	if err != nil {
		t.Fatalf("read: %v", err)
	}
	return b
}

// listenTo reads one message.
func listenTo(c net.Conn) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(head[1:]))
	copy(b, head)
	_, err := io.ReadFull(c, b[5:])
	return b, err
}
