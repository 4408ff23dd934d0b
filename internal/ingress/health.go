package ingress

import (
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Cause says why an admitted request got no answer from its backend. The set is
// closed.
type Cause uint8

// The causes.
const (
	Unreachable Cause = iota // no connection
	Silent                   // no answer in time
	HungUp                   // the connection ended before the answer
	Garbled                  // the answer is not one in the protocol

	causes int = iota
)

// Causes returns every cause in a fixed order.
func Causes() []Cause { return []Cause{Unreachable, Silent, HungUp, Garbled} }

// String returns the cause as it appears in metrics.
func (c Cause) String() string {
	switch c {
	case Silent:
		return "timeout"
	case HungUp:
		return "closed"
	case Garbled:
		return "bad_response"
	default:
		return "unreachable"
	}
}

const (
	// warnEvery is how often a backend that fails is logged, at most.
	warnEvery = 10 * time.Second
	// failingFor is for how long a backend that answers again is said to fail.
	failingFor = 10 * time.Second
	// A backend is down once it has failed this often, for this long, without
	// one answer in between: a single failure says little of it.
	downAfter    = 3
	downAfterAge = time.Second
	// otherBackend stands for all that the configuration does not name.
	otherBackend = "other"
)

// BackendState is how a backend answers. The set is closed.
type BackendState string

// The states of a backend.
const (
	BackendUnknown BackendState = "unknown" // nobody has asked it yet
	BackendUp      BackendState = "up"
	BackendFailing BackendState = "failing" // it answered some of late, and others not
	BackendDown    BackendState = "down"    // it answers nothing
)

// BackendStatus is a snapshot of one [Backend].
type BackendStatus struct {
	Address  string
	State    BackendState
	Since    time.Time // of the last change; zero while nobody has asked
	Cause    string    // of the last failure, a [Cause] as a word; "" = there was none
	LastFail time.Time // zero = never
	Failures []uint64  // by [Cause]
	Unasked  uint64    // times that it was not asked, since no file descriptor was left
}

// Health tells whether the backends of one ingress answer. Each gate tells the
// [Backend] that it asked of failures and of answers. It is safe for concurrent
// use.
type Health struct {
	mu       sync.Mutex // guards the fields below; never held across a wait
	ingress  string
	log      *slog.Logger
	backends []*Backend // those of the configuration, in its order
	other    *Backend
}

// NewHealth returns the health of the backends at these addresses, about which
// nothing is known. Further ones are summed up as "other".
func NewHealth(addresses ...string) *Health {
	h := &Health{other: &Backend{address: otherBackend}}
	h.Keep(addresses...)
	return h
}

// Log has failures and recoveries logged under the name of an ingress.
func (h *Health) Log(ingress string, log *slog.Logger) *Health {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ingress, h.log = ingress, log
	for _, b := range append(h.backends, h.other) {
		b.logTo(ingress, log)
	}
	return h
}

// Keep changes what the backends are. Of those that stay nothing is forgotten.
func (h *Health) Keep(addresses ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var next []*Backend
	for _, address := range addresses {
		switch {
		case h.find(next, address) != nil:
		case h.find(h.backends, address) != nil:
			next = append(next, h.find(h.backends, address))
		default:
			b := &Backend{address: address}
			b.logTo(h.ingress, h.log)
			next = append(next, b)
		}
	}
	h.backends = next
}

// Addresses returns those of the configuration, in its order.
func (h *Health) Addresses() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]string, len(h.backends))
	for i, b := range h.backends {
		all[i] = b.address
	}
	return all
}

// find returns the backend at an address, nil when it is not among them.
func (*Health) find(all []*Backend, address string) *Backend {
	if i := slices.IndexFunc(all, func(b *Backend) bool { return b.address == address }); i >= 0 {
		return all[i]
	}
	return nil
}

// Of returns the backend at an address, the one that stands for all others when
// it is none of the configuration's. It is never nil.
func (h *Health) Of(address string) *Backend {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b := h.find(h.backends, address); b != nil {
		return b
	}
	return h.other
}

// Status returns how each backend answers as of now, in the configuration's
// order; the others only when one was asked.
func (h *Health) Status(now time.Time) []BackendStatus {
	h.mu.Lock()
	all := slices.Clone(h.backends)
	if h.other.phase.Load() != phaseNew {
		all = append(all, h.other)
	}
	h.mu.Unlock()
	out := make([]BackendStatus, 0, len(all))
	for _, b := range all {
		out = append(out, b.status(now))
	}
	return out
}

// The phases of a backend.
const (
	phaseNew     uint32 = iota // not asked
	phaseAnswers               // the last one asked was answered
	phaseFails                 // the last one asked was not
)

// Backend is what is known of one backend. It is safe for concurrent use.
type Backend struct {
	address string
	phase   atomic.Uint32
	counts  [causes]atomic.Uint64
	unasked atomic.Uint64

	mu       sync.Mutex // guards the fields below
	ingress  string
	log      *slog.Logger
	streak   int       // failures without an answer in between
	since    time.Time // the phase began
	cause    Cause     // of the last failure
	lastFail time.Time // zero = never
	warned   time.Time // of the last line in the log
	told     uint64    // failures that the lines so far spoke of
	earlier  uint64    // failures of an outage that is over, of which no line spoke
	saidDown bool      // the log says that it is down
	lacked   time.Time // of the last line about descriptors
}

// logTo sets where the backend is logged.
func (b *Backend) logTo(ingress string, log *slog.Logger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ingress, b.log = ingress, log
}

// Answered notes that the backend answered, whatever it said. While nothing
// changes it costs one load.
func (b *Backend) Answered() {
	if b.phase.Load() != phaseAnswers {
		b.recover(time.Now())
	}
}

// recover notes the first answer after failures.
func (b *Backend) recover(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.phase.Load() == phaseAnswers {
		return
	}
	if b.saidDown && b.log != nil {
		total := b.total()
		b.log.Info("backend answers again", slog.String("ingress", b.ingress), slog.String("backend", b.address),
			slog.Duration("was_down", now.Sub(b.since)), slog.Uint64("failures", total-b.told))
		b.told, b.warned = total, time.Time{} // the next failure is another outage's
	}
	b.streak, b.saidDown = 0, false
	b.since = now
	b.phase.Store(phaseAnswers)
}

// Failed notes that the backend did not answer, and logs it now and then. What
// [LacksDescriptors] is logged, and is no failure of the backend's.
func (b *Backend) Failed(c Cause, err error) {
	if LacksDescriptors(err) {
		b.lack(err)
		return
	}
	b.counts[c].Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.phase.Load() != phaseFails {
		b.since = now
		b.phase.Store(phaseFails)
	}
	b.streak++
	if total := b.total() - 1; now.Sub(b.lastFail) >= warnEvery {
		b.earlier, b.told = total-b.told, total // of an outage that is over
	}
	b.cause, b.lastFail = c, now
	down := b.isDown(now)
	if b.log == nil || !b.warned.IsZero() && now.Sub(b.warned) < warnEvery && (b.saidDown || !down) {
		return
	}
	total := b.total()
	b.saidDown = down
	attrs := []any{
		slog.String("ingress", b.ingress), slog.String("backend", b.address), slog.String("cause", c.String()),
		slog.Bool("down", down), slog.Uint64("failures", total-b.told),
	}
	if b.earlier > 0 {
		attrs = append(attrs, slog.Uint64("earlier_failures", b.earlier))
	}
	b.log.Warn("backend fails", append(attrs, slog.Any("error", err))...)
	b.warned, b.told, b.earlier = now, total, 0
}

// LacksDescriptors reports whether err is that the process, or the machine, has no
// file descriptor left to reach a backend with. It says nothing of the backend, nor
// of its load.
func LacksDescriptors(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// lack logs now and then that the backend was not even asked.
func (b *Backend) lack(err error) {
	b.unasked.Add(1)
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := time.Now(); b.log != nil && (b.lacked.IsZero() || now.Sub(b.lacked) >= warnEvery) {
		b.log.Error("backend not asked: no file descriptor is left", slog.String("ingress", b.ingress),
			slog.String("backend", b.address), slog.Any("error", err))
		b.lacked = now
	}
}

// total returns the failures so far.
func (b *Backend) total() (n uint64) {
	for i := range b.counts {
		n += b.counts[i].Load()
	}
	return n
}

// isDown reports whether it has failed too often and too long without an answer.
// The lock is held.
func (b *Backend) isDown(now time.Time) bool {
	return b.phase.Load() == phaseFails && b.streak >= downAfter && now.Sub(b.since) >= downAfterAge
}

// status reads the backend.
func (b *Backend) status(now time.Time) BackendStatus {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := BackendStatus{Address: b.address, State: BackendUnknown, Since: b.since, LastFail: b.lastFail, Failures: make([]uint64, causes), Unasked: b.unasked.Load()}
	for i := range b.counts {
		s.Failures[i] = b.counts[i].Load()
	}
	if !b.lastFail.IsZero() {
		s.Cause = b.cause.String()
	}
	switch {
	case b.phase.Load() == phaseNew:
	case b.isDown(now):
		s.State = BackendDown
	case !b.lastFail.IsZero() && now.Sub(b.lastFail) < failingFor:
		s.State = BackendFailing
	default:
		s.State = BackendUp
	}
	return s
}
