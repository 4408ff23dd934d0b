package pulsargate

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

var (
	// errStalled ends a connection whose peer stopped in the middle of a frame,
	// or does not read what is written to it.
	errStalled = errors.New("pulsargate: peer stalled")
	// errDraining ends reading because the server shuts down.
	errDraining = errors.New("pulsargate: draining")
	// errOver ends one direction because the other has ended.
	errOver = errors.New("pulsargate: connection is over")
)

// session is one client with its broker.
type session struct {
	srv        *Server
	client     *lane
	broker     *lane
	up, down   relay // client to broker, broker to client
	throttling bool  // the client understands ThrottleProducer
	health     *ingress.Backend
	wg         sync.WaitGroup

	done    chan struct{} // closed when the session is over
	drain   <-chan struct{}
	room    chan struct{} // signals a paused reader that something has changed
	missing atomic.Int32  // throttled producers whose client has not acknowledged it
	paused  atomic.Bool   // nothing is read from the client

	mu        sync.Mutex // guards the fields below and all producers; never held across a wait
	cause     error      // why the session is over; nil = it is not
	lost      bool       // the broker ended it
	draining  bool
	producers map[uint64]*producer
	requests  map[uint64]request  // PRODUCER and CLOSE_PRODUCER without an answer, by request id
	refused   map[uint64]struct{} // the requests of refused producers, to notice an id that was used twice
	notices   map[uint64]*producer
	noticeID  uint64 // of the last notice
	inFlight  int    // messages forwarded without a receipt
	held      int    // frames held
	heldBytes int
}

// request is a client's request whose answer changes the table of producers.
type request struct {
	producer *producer
	closing  bool
}

// newSession returns a session that has not begun.
func newSession(srv *Server, client, broker net.Conn, throttling bool) *session {
	s := &session{
		srv: srv, client: newLane(client), broker: newLane(broker), throttling: throttling,
		done: make(chan struct{}), room: make(chan struct{}, 1),
		producers: map[uint64]*producer{}, requests: map[uint64]request{}, refused: map[uint64]struct{}{},
		notices: map[uint64]*producer{},
	}
	s.up = relay{
		src: client, dst: s.broker, in: &clientSide{session: s}, now: srv.gate.Now,
		maxFrame: srv.maxFrame(), patience: srv.o.StallTimeout,
	}
	s.down = relay{src: broker, dst: s.client, in: &brokerSide{s}, now: srv.gate.Now, maxFrame: maxBrokerFrame}
	return s
}

// run moves frames until the session is over, and returns why.
func (s *session) run(ctx context.Context) error {
	s.drain = ctx.Done()
	stop := context.AfterFunc(ctx, s.stopReading)
	defer stop()
	watchdog := s.watch()
	defer watchdog.Stop()

	s.wg.Go(s.relayDown)
	err := s.up.run()
	if ctx.Err() != nil {
		if !s.broker.torn { // else one receipt never comes
			s.awaitReceipts()
		}
		err = nil
	}
	s.end(err, false)
	s.wg.Wait()
	return s.settle()
}

// relayDown is the goroutine from broker to client.
func (s *session) relayDown() { s.end(s.down.run(), true) }

// stopReading begins the drain: nothing more is read from the client, nothing
// that is held is forwarded.
func (s *session) stopReading() {
	s.mu.Lock()
	s.draining = true
	s.mu.Unlock()
	_ = s.client.conn.SetReadDeadline(time.Unix(1, 0)) // a connection that cannot be told is closed at the end
}

// awaitReceipts returns when everything that was forwarded has its receipt.
func (s *session) awaitReceipts() {
	s.paused.Store(true)
	for {
		s.mu.Lock()
		inFlight := s.inFlight
		s.mu.Unlock()
		if inFlight == 0 {
			return
		}
		select {
		case <-s.room:
		case <-s.done:
			return
		}
	}
}

// end makes the session over. The first caller's reason is the one that counts.
func (s *session) end(cause error, byBroker bool) {
	if errors.Is(cause, errTorn) {
		return // a consequence; its cause is about to be told
	}
	s.mu.Lock()
	first := s.cause == nil
	if first {
		s.lost = byBroker
		if s.cause = cause; cause == nil {
			s.cause = errOver
		}
	}
	s.mu.Unlock()
	if first {
		close(s.done)
		s.client.conn.Close()
		s.broker.conn.Close()
	}
}

// settle gives back all that the session has, once its goroutines are gone, and
// returns why it ended.
func (s *session) settle() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	outcome := limiter.Ignored // the client went away: that says nothing of the broker
	if s.lost {
		outcome = limiter.Dropped
		if s.inFlight > 0 && !s.draining {
			s.health.Failed(ingress.HungUp, s.cause)
		}
	}
	for _, p := range s.producers {
		s.dropLocked(p, outcome)
	}
	if errors.Is(s.cause, errOver) {
		return nil
	}
	return s.cause
}

// signalLocked wakes the reader when it is paused.
func (s *session) signal() {
	if !s.paused.Load() {
		return
	}
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// watch closes the session when a peer stalls for a whole StallTimeout.
func (s *session) watch() *watchdog {
	w := &watchdog{s: s}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(s.srv.o.StallTimeout, w.look)
	return w
}

// watchdog looks after one session.
type watchdog struct {
	s    *session
	last [4]uint64 // used by one call of look at a time

	mu      sync.Mutex // guards the fields below; never held across a wait
	timer   *time.Timer
	stopped bool
}

// look compares with the last look.
func (w *watchdog) look() {
	s := w.s
	for i, b := range [4]*busy{&s.up.reading, &s.down.reading, &s.client.writing, &s.broker.writing} {
		stalled, n := b.stalled(w.last[i])
		if stalled {
			s.end(errStalled, i%2 == 1)
			return
		}
		w.last[i] = n
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.stopped {
		w.timer.Reset(s.srv.o.StallTimeout)
	}
}

// Stop ends the watch.
func (w *watchdog) Stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	w.timer.Stop()
}
