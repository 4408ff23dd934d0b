package tuner

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/tuner/signal"
)

// tickEvery is how often the tuner looks.
const tickEvery = time.Second

// longestGap between two ticks. After a longer one, or one backwards, nothing
// that was measured means what it seems.
const longestGap = 30 * time.Second

// Tuner decides. Its methods are safe for concurrent use.
type Tuner struct {
	epoch   time.Time // when it began
	signals *signalReaders
	status  atomic.Pointer[Status]

	// turn is taken by ticks and by what people ask for, one at a time, and
	// guards the fields below. It is held across Gate.Patch; what the gate
	// calls while it patches must not come back here.
	turn sync.Mutex
	mover
	freezer freezer
	begun   bool
	ticked  time.Time
}

// New returns a tuner that has seen nothing yet at now. The error is everything that
// [Options.Validate] finds.
func New(now time.Time, g Gate, o Options) (*Tuner, error) {
	o = o.withDefaults()
	if err := o.Validate(); err != nil {
		return nil, err
	}
	t := &Tuner{
		epoch: now, signals: newSignalReaders(now, o.Signals, o.Log), freezer: freezer{off: o.Mode == Off},
		mover: mover{o: o, gate: g, journal: auditLog{audit: o.Audit}, past: past{trial: o.Trial, histories: map[string]*history{}}, hands: map[Setting]bool{}},
	}
	t.policies = policySet{past: &t.past, trial: o.Trial}
	for _, p := range o.Policies {
		if p.Cooldown <= 0 {
			p.Cooldown = defaultCooldown
		}
		t.policies.entries = append(t.policies.entries, &entry{Policy: p, spread: map[*managedSetting]float64{}})
	}
	t.publish(now)
	return t, nil
}

// Feed passes on what was read for the signal of that name; v is ignored when
// err is not nil. at is when it was true, zero = now. [Tuner.Run] does so by
// itself; call it only without Run.
func (t *Tuner) Feed(now time.Time, name string, v float64, at time.Time, err error) {
	t.signals.add(now, name, v, at, err)
}

// Run reads the sources and decides, until ctx is done, and then closes the
// sources. Every source has a goroutine of its own, so that a slow one holds up
// nobody.
func (t *Tuner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if t.o.Mode != Off {
		t.signals.run(ctx, &wg)
	}
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		t.Tick(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	wg.Wait()
	return t.signals.close()
}

// Tick looks at everything and decides. Call it about once per second, from one
// goroutine. A panic below it stops the tuner until a person releases it.
func (t *Tuner) Tick(ctx context.Context, now time.Time) {
	t.turn.Lock()
	defer t.turn.Unlock()
	defer t.publish(now)
	defer func() {
		if p := recover(); p != nil {
			t.freezer.panicked = fmt.Sprint(p)
			t.o.Log.Error("tuner panicked and holds still", slog.String("panic", t.freezer.panicked), slog.String("stack", string(debug.Stack())))
		}
	}()
	st := t.gate.Read()
	t.keepTime(now)
	if !t.begun || st.Generation != t.generation {
		t.begin(now, &st)
	}
	t.past.note(now, &st)
	t.signals.own(now, &t.past)
	t.noticeHands(now, &st)
	t.look(now)
	if st.Hold == "" && t.freezer.distrusted { // latencies of that time are not to be believed
		t.forget(now)
	}
	if on, news := t.freezer.look(now, &st); on {
		if news {
			t.record(now, &Record{Kind: KindHold, Why: t.freezer.why})
		}
		return
	}
	t.watch(ctx, now)
	for _, l := range t.levers {
		t.decide(ctx, now, l)
	}
}

// keepTime forgets what was measured when time jumped.
func (t *Tuner) keepTime(now time.Time) {
	if gap := now.Sub(t.ticked); !t.ticked.IsZero() && (gap < 0 || gap > longestGap) {
		t.forget(now)
	}
	t.ticked = now
}

// forget drops everything that was measured. What is being tried can then not
// be judged.
func (t *Tuner) forget(now time.Time) {
	clear(t.past.histories)
	t.signals.forget()
	for _, l := range t.levers {
		l.doubt = len(l.open) > 0
		l.moved = now
	}
	for _, e := range t.policies.entries {
		e.paused = [2]time.Time{}
	}
	t.freezer.settled = now.Add(defaultCooldown)
}

// begin starts from the configuration as it is now.
func (t *Tuner) begin(now time.Time, st *State) {
	maps.DeleteFunc(t.hands, func(s Setting, _ bool) bool { return len(s.expand(st)) == 0 })
	if t.begun {
		why := "the configuration was read anew; every setting begins from it"
		if n := len(t.hands); n > 0 {
			why += fmt.Sprintf("; settings that people set or took back are left alone still: %d", n)
		}
		t.record(now, &Record{Kind: KindReload, Why: why})
		t.freezer.settled = now.Add(defaultCooldown)
	}
	for _, l := range t.levers {
		l.close(&t.journal, "the configuration was read anew")
	}
	t.begun, t.generation, t.levers = true, st.Generation, nil
	known := map[Setting]*managedSetting{}
	for _, e := range t.policies.entries {
		e.levers, e.held = nil, ""
		clear(e.spread)
		for _, s := range e.Adjust.expand(st) {
			l := known[s]
			if l == nil {
				l = &managedSetting{at: s}
				l.base, _ = s.in(st.Settings[s.Ingress])
				l.current = l.base
				if c, ok := s.companion(); ok {
					l.follower, _ = c.in(st.Settings[s.Ingress])
				}
				known[s] = l
				t.levers = append(t.levers, l)
			}
			e.levers = append(e.levers, l)
		}
	}
}

// noticeHands finds settings that somebody else changed.
func (t *Tuner) noticeHands(now time.Time, st *State) {
	for _, l := range t.levers {
		l.bounds = l.at.within(st.Settings[l.at.Ingress])
		v, ok := l.at.in(st.Settings[l.at.Ingress])
		if !ok || v == l.current || nearly(v, l.current) {
			continue
		}
		l.close(&t.journal, "somebody changed the setting")
		old := l.current
		l.current, l.touched, t.hands[l.at] = v, false, true
		t.record(now, &Record{
			Kind: KindManual, Setting: l.at.String(), Old: shown(old), New: shown(v),
			Why: "somebody else set it; it is left alone until it is released",
		})
	}
}

func nearly(a, b float64) bool {
	if math.IsInf(a, 0) || math.IsInf(b, 0) { // without a bound is far from any
		return a == b
	}
	d := a - b
	return d*d <= 1e-18*(a*a+b*b)
}

// look reads all signals, and tells rules what they say.
func (t *Tuner) look(now time.Time) {
	all := map[string]SignalNow{}
	for _, s := range t.signals.all(now) {
		all[s.Name] = s
	}
	for _, e := range t.policies.entries {
		e.look(now, all)
		t.noteSight(now, e)
	}
}

// noteSight records when a policy goes blind, and when it sees again.
func (t *Tuner) noteSight(now time.Time, e *entry) {
	blind, young := false, false
	for _, s := range e.seen {
		blind = blind || !s.Trusted
		young = young || s.Distrust == signal.Never
	}
	switch {
	case blind && !e.blind && !young:
		e.blind = true
		t.record(now, &Record{Kind: KindBlind, Policy: e.Name, Signals: e.seen, Why: e.held})
	case !blind && e.blind:
		e.blind = false
		t.record(now, &Record{Kind: KindSeeing, Policy: e.Name, Signals: e.seen, Why: "all signals are trusted again"})
	}
}
