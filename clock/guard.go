package clock

import (
	"context"
	"maps"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	tick          = 100 * time.Millisecond // of the comparison with other clocks
	readsEvery    = 10 * time.Second       // a thorough look at the steps
	sourceEvery   = 30 * time.Second       // a look at the clock source
	samplesEvery  = time.Minute            // the window of the samples' ratio
	fewestSamples = 100                    // below which a ratio means nothing
	stripes       = 8
)

// Options configures a [Guard]. The zero value is the default.
type Options struct {
	Mode Mode
	// Recovery is how long a state outlives its last evidence; 0 = 10 min.
	Recovery time.Duration
	// Shortest is the shortest interval that has to be told from others, the
	// smallest configured target or baseline; a clock whose steps pass a
	// hundredth of it is bad. 0 = none.
	Shortest time.Duration
	// Fault bends the readings, for rehearsals; nil = none.
	Fault *Fault
	// OnChange is called by [Guard.Run] after each change of state, without a
	// lock held; nil = none.
	OnChange func(Status)
	// Sources replaces the machine's clocks in tests.
	Sources Sources
}

// Guard is a monotonic clock that knows how far it can be trusted. All methods
// are safe for concurrent use. Without [Guard.Run] it is a plain clock.
type Guard struct {
	base time.Time
	bent bool // readings do not come straight from the runtime

	shortest atomic.Int64 // Options.Shortest, or what replaced it

	mode  atomic.Uint32
	state atomic.Uint32
	epoch atomic.Uint32

	o        Options
	onChange func(Status)
	samples  [stripes]stripe

	findings

	seen    evidence // used by Run or Step alone
	stepped bool     // used by Step alone
}

// findings are what is told of the clock.
type findings struct {
	mu     sync.Mutex // guards the fields below; never held across a wait or a callback
	reason Reason
	since  time.Time
	source string
	counts map[Reason]uint64
	total  uint64
	bad    uint64
}

// stripe counts samples, good ones in the lower word, bad ones in the upper.
// Stripes are a cache line apart.
type stripe struct {
	word atomic.Uint64
	_    [56]byte
}

// evidence is what Run remembers, in ticks since it began. Ticks, because the
// clock they would be measured with is the one in doubt.
type evidence struct {
	ticks         int64
	badUntil      int64
	suspectUntil  int64
	badReason     Reason
	suspectReason Reason
	last          instant
}

// New returns a clock that starts at 0 now and is trusted. Nobody looks after it
// until [Guard.Run].
func New(o Options) *Guard {
	base := time.Now()
	g := &Guard{
		base: base, bent: o.Fault != nil || o.Sources.Monotonic != nil,
		o: o, onChange: o.OnChange, findings: findings{since: base, counts: map[Reason]uint64{}},
	}
	if g.o.Recovery <= 0 {
		g.o.Recovery = 10 * time.Minute
	}
	g.o.Sources = o.Sources.withDefaults(base)
	g.mode.Store(uint32(o.Mode))
	g.SetShortest(o.Shortest)
	return g
}

// Now returns monotonic nanoseconds since the clock was made.
func (g *Guard) Now() int64 {
	if g.bent {
		return g.o.Fault.bend(g.o.Sources.Monotonic())
	}
	return int64(time.Since(g.base))
}

// Trusted reports whether intervals measured with Now mean anything. It costs
// two atomic loads.
func (g *Guard) Trusted() bool {
	switch Mode(g.mode.Load()) {
	case Fixed:
		return false
	case Off:
		return true
	default:
		return State(g.state.Load()) != Bad
	}
}

// Epoch changes whenever an interval that spans the change is worthless: the
// process was paused, the machine suspended, or the clock jumped.
func (g *Guard) Epoch() uint32 { return g.epoch.Load() }

// SetMode changes the mode at once.
func (g *Guard) SetMode(m Mode) { g.mode.Store(uint32(m)) }

// SetShortest replaces [Options.Shortest], as a new configuration may; the next
// look at the steps counts with it.
func (g *Guard) SetShortest(d time.Duration) { g.shortest.Store(int64(d)) }

// Sample reports one latency: ok is false when it cannot be true, for it is not
// above zero. A long one is no evidence: that a clock runs ahead of the others
// is seen by comparing them, and streams and long queries are true. Latencies
// that span two epochs are not to be reported. It costs one atomic add.
func (g *Guard) Sample(ok bool) {
	n := uint64(1)
	if !ok {
		n = 1 << 32
	}
	g.samples[rand.Uint32()%stripes].word.Add(n) //nolint:gosec // spreads contention, guards no secret
}

// Status returns a snapshot.
func (g *Guard) Status() Status {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := Status{
		State: State(g.state.Load()), Mode: Mode(g.mode.Load()), Trusted: g.Trusted(),
		Reason: g.reason, Since: g.since, Source: g.source, Epoch: g.Epoch(),
		Counts: maps.Clone(g.counts), Samples: g.total, Bad: g.bad,
	}
	for i := range g.samples {
		word := g.samples[i].word.Load()
		s.Samples += word>>32 + word&(1<<32-1)
		s.Bad += word >> 32
	}
	return s
}

// Run watches the clock until ctx ends and then returns nil. It is called
// once, by one goroutine.
func (g *Guard) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	g.begin()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			g.tick()
		}
	}
}

// begin takes the first, most thorough look.
func (g *Guard) begin() {
	g.checkSource()
	g.judge(g.steps(startReads))
	if readAcross(g.Now, acrossReads) {
		g.judge([]Reason{Decreasing})
	}
	g.seen.last, _ = readAll(g.Now, g.o.Sources)
	g.settle()
}

// tick compares the clocks, looks closer when it is time, and settles the
// state.
func (g *Guard) tick() {
	g.seen.ticks++
	due := func(every time.Duration) bool { return g.seen.ticks%int64(every/tick) == 0 }

	g.compareClocks()
	switch {
	case due(readsEvery):
		g.judge(g.steps(regularReads))
	case g.seen.badUntil-g.seen.ticks < int64(readsEvery/tick):
		// A clock known to be bad is looked at no more often than it takes to
		// keep it so: waiting for its steps can hold a processor.
		g.judge(g.steps(glanceReads))
	}
	if due(sourceEvery) {
		g.checkSource()
	}
	if due(samplesEvery) {
		g.checkSamples()
	}
	g.settle()
}

// judge counts what was found and remembers how bad it is and until when.
func (g *Guard) judge(found []Reason) {
	for _, r := range found {
		g.count(r)
		until := g.seen.ticks + int64(g.o.Recovery/tick)
		switch severity(r) {
		case Bad:
			g.seen.badUntil, g.seen.badReason = until, r
		case Suspect:
			g.seen.suspectUntil, g.seen.suspectReason = until, r
		case Good:
		}
	}
}

// suspect remembers evidence that is weaker than its reason usually is.
func (g *Guard) suspect(r Reason) {
	g.count(r)
	g.seen.suspectUntil, g.seen.suspectReason = g.seen.ticks+int64(g.o.Recovery/tick), r
}

// count adds one to a reason or event.
func (f *findings) count(r Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts[r]++
}

// severity is the state that a reason stands for; Good for events.
func severity(r Reason) State {
	switch r {
	case Decreasing, Stopped, Jumped, Coarse, BadSamples:
		return Bad
	case Equal, SlowRead, PoorSource, SourceChanged:
		return Suspect
	default:
		return Good
	}
}

// settle derives the state from the evidence that has not faded and tells of a
// change.
func (g *Guard) settle() {
	state, reason := Good, Reason("")
	switch {
	case g.seen.ticks < g.seen.badUntil:
		state, reason = Bad, g.seen.badReason
	case g.seen.ticks < g.seen.suspectUntil:
		state, reason = Suspect, g.seen.suspectReason
	}
	if State(g.state.Load()) == state {
		return
	}
	g.change(state, reason)
	if g.onChange != nil {
		g.onChange(g.Status())
	}
}

// change enters a state.
func (g *Guard) change(state State, reason Reason) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.state.Store(uint32(state))
	g.reason, g.since = reason, time.Now()
}

// rename keeps the name of the hardware and returns the one before.
func (f *findings) rename(source string) (before string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before, f.source = f.source, source
	return before
}

// settleSamples adds to the samples so far.
func (f *findings) settleSamples(all, bad uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.total += all
	f.bad += bad
}

// checkSource reads the name of the hardware.
func (g *Guard) checkSource() {
	name := g.o.Sources.Source()
	before := g.rename(name)
	if before != "" && name != "" && name != before {
		g.judge([]Reason{SourceChanged})
	}
	switch name {
	case "jiffies", "refined-jiffies":
		g.judge([]Reason{Coarse})
	case "hpet", "acpi_pm", "xen":
		g.judge([]Reason{PoorSource})
	}
}

// checkSamples judges the share of impossible samples since the last check.
func (g *Guard) checkSamples() {
	var all, bad uint64
	for i := range g.samples {
		word := g.samples[i].word.Swap(0)
		all += word>>32 + word&(1<<32-1)
		bad += word >> 32
	}
	g.settleSamples(all, bad)
	switch {
	case all < fewestSamples:
	case bad*100 > all:
		g.judge([]Reason{BadSamples})
	case bad*1000 > all:
		g.suspect(BadSamples)
	}
}
