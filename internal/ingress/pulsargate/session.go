package pulsargate

import (
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// session is what the gate knows of one connection. It is a [relay.Protocol]
// that multiplexes: messages of many producers are at work at once, each with
// its permit, and those of throttled producers are kept and sent later.
type session struct {
	srv    *Server
	o      *settings // under which the connection came
	remote net.Addr
	client netip.Addr // the same without its port; the zero Addr when there is none
	wg     sync.WaitGroup
	done   chan struct{} // closed when the client has gone

	// Set by the client's side before there is a broker.
	r          *relay.Session
	throttling bool // the client understands ThrottleProducer

	// Only for the client's side.
	keeping keptFrame
	upload  upload

	pause pause

	mu      sync.Mutex // guards the fields below and all producers; never held across a wait
	left    bool
	book    openTable
	notices notices
	room    connMemory
	bill    limiter.Bill // scratch
}

// keeping is the frame that Keep is about to be handed.
type keptFrame struct {
	producer *producer // nil = none
	frame    heldFrame
}

// upload is a message that is forwarded before all of it has come.
type upload struct {
	producer *producer // nil = none
	sequence uint64
	left     int // bytes to come
}

// newSession returns what is known of a client before it spoke.
func newSession(srv *Server, c net.Conn) *session {
	s := &session{
		srv: srv, o: srv.current.Load(), remote: c.RemoteAddr(), client: ingress.ClientAddr(c), done: make(chan struct{}), book: newBook(),
		notices: notices{sent: map[uint64]*producer{}}, room: connMemory{srv: srv},
	}
	s.pause.s = s
	return s
}

// Inspect implements [relay.Protocol].
func (s *session) Inspect(r *relay.Session, m relay.Message) (relay.Verdict, error) {
	cmd, ok := command(&m)
	switch {
	case !ok:
		return relay.Verdict{Action: relay.More}, nil
	case r.Draining():
		return s.drained()
	case !s.pause.reads():
		return relay.Verdict{Action: relay.Wait}, s.pause.announce()
	}
	c, err := pulsarwire.ParseCommand(cmd)
	if err != nil {
		return relay.Verdict{}, err
	}
	if s.r == nil {
		return s.connect(r, c)
	}
	v, err := s.admit(c, &m)
	if err == nil && v.Action == relay.Wait {
		err = s.pause.announce()
	}
	return v, err
}

// drained takes nothing more from the client, and waits for the receipts of what
// was forwarded. What is held is left to the client, which sends it again where
// it connects next.
func (s *session) drained() (relay.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.room.inFlight == 0 {
		return relay.Verdict{}, relay.ErrDrained
	}
	s.pause.on.Store(true) // the broker is answered in the client's place
	return relay.Verdict{Action: relay.Wait}, nil
}

// Done implements [relay.Protocol].
func (s *session) Done(bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.room.inFlight == 0
}

// connect decides about the CONNECT of a client: to the broker that it wants, if
// it may have it. When it may not, or the broker cannot be reached, it is told.
func (s *session) connect(r *relay.Session, c pulsarwire.Command) (relay.Verdict, error) {
	if c.Type != pulsarwire.TypeConnect {
		return relay.Verdict{}, fmt.Errorf("%w: command %d before CONNECT", pulsarwire.ErrMalformed, c.Type)
	}
	hello, err := pulsarwire.DecodeConnect(c.Body)
	if err != nil {
		return relay.Verdict{}, err
	}
	body, err := pulsarwire.StripConnect(nil, c.Body)
	if err != nil {
		return relay.Verdict{}, err
	}
	address := brokerAddress(hello.ProxyToBroker)
	if hello.ProxyToBroker != "" && !s.o.brokers.allows(address) {
		s.o.Observer.Happened(EventBrokerRefused)
		_ = r.Tell(refusal(noRequest, pulsarwire.NotAllowedError, "broker is not on the gate's list of brokers")) // a last word
		return relay.Verdict{}, fmt.Errorf("pulsargate: broker %q is not on the list of brokers", address)
	}
	s.r, s.throttling = r, hello.Throttling
	s.notices.on = hello.Throttling && s.o.Method == Auto
	if err := r.Connect(address); err != nil {
		_ = r.Tell(refusal(noRequest, pulsarwire.ServiceNotReady, "broker cannot be reached")) // a last word
		return relay.Verdict{}, err
	}
	return relay.Verdict{Instead: pulsarwire.AppendFrame(nil, pulsarwire.TypeConnect, body)}, nil
}

// Follow implements [relay.Follower]: the latency of a message begins when the
// broker has all of it, or a slow client would make the broker look slow.
func (s *session) Follow(from relay.Side, part []byte) {
	u := &s.upload
	if from == relay.Backend || u.producer == nil {
		return
	}
	if u.left -= len(part); u.left > 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	u.producer.flights.restart(u.sequence, s.r.Now())
	u.producer = nil
}

// Leave implements [relay.Multiplexer]: the client will send again what has no
// receipt. What is held is discarded; what was forwarded is work at the broker,
// and holds its permits until that is done.
func (s *session) Leave() (working bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.left {
		return s.room.inFlight > 0
	}
	s.left = true
	s.pause.on.Store(true) // the broker is answered in the client's place
	close(s.done)
	for _, p := range s.book.producers {
		p.discardLocked()
		for i := range p.flights.n {
			if s.r == nil || !s.r.Lost() { // else it is the broker that has gone
				p.flights.at(i).permit.Leave()
			}
		}
	}
	return s.room.inFlight > 0
}

// settle gives back all that the session has, when it is over.
func (s *session) settle() {
	s.Leave()
	s.wg.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := limiter.Ignored // the client went away: that says nothing of the broker
	if s.r != nil && s.r.Lost() {
		outcome = limiter.Dropped
	}
	for _, p := range s.book.producers {
		p.dropLocked(outcome)
	}
	if s.keeping.producer != nil { // half of it came
		s.room.give(&s.keeping.frame)
	}
	s.pause.endLocked()
}

// room is what a connection takes up. It is guarded by session.mu.
type connMemory struct {
	srv      *Server
	inFlight int // messages forwarded without a receipt
	frames   int // held
	bytes    int // held
}

// full returns the name of the bound that leaves no room to hold a frame, ""
// when there is room.
func (r *connMemory) full(size int) string {
	limits := r.srv.limits.Load()
	switch {
	case r.frames >= limits.MaxPending:
		return LimitPending
	case r.bytes+size > limits.MaxHeldBytes:
		return LimitHeldBytes
	case r.srv.heldBytes.Load()+int64(size) > int64(limits.MaxGateHeldBytes):
		return LimitGateHeldBytes
	default:
		return ""
	}
}

// crowded returns the bound that leaves no room for another producer, "" when
// there is room.
func (r *connMemory) crowded(b *openTable) (why string) {
	limits := r.srv.limits.Load()
	switch {
	case len(b.producers) >= limits.MaxProducers || len(b.requests) >= 2*limits.MaxProducers:
		return "too many producers on this connection"
	case r.inFlight >= limits.MaxPending || r.frames >= limits.MaxPending:
		return "too many pending messages on this connection"
	case r.bytes >= limits.MaxHeldBytes || r.srv.heldBytes.Load() >= int64(limits.MaxGateHeldBytes):
		return "too many bytes held"
	default:
		return ""
	}
}

// take makes room for a frame that is to be held.
func (r *connMemory) take(f *heldFrame) { r.add(1, f.size) }

// give gives back the room of a frame.
func (r *connMemory) give(f *heldFrame) { r.add(-1, -f.size) }

// add counts here and for the whole gate.
func (r *connMemory) add(frames, bytes int) {
	r.frames += frames
	r.bytes += bytes
	r.srv.heldFrames.Add(int64(frames))
	r.srv.heldBytes.Add(int64(bytes))
}
