package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
)

// Options are what a [Group] is made of. Redis, Now and Buckets are required.
type Options struct {
	Redis Redis
	// Name of the group: gates of one group share what bears the same name.
	Name string
	// Gate is what this gate is called in documents; "" = the name of the host. It
	// is no identity: that is drawn anew for each process.
	Gate     string
	Settings Settings
	// Now reads the clock that the buckets go by, in monotonic nanoseconds.
	Now func() int64
	// Buckets lists what is shared. It is called from one goroutine.
	Buckets Buckets
	// Limits lists the limits that are shared; nil = none is.
	Limits Limits
	// Sharing is what the rates of Buckets carry; nil = nothing.
	Sharing *limiter.Sharing
	Log     *slog.Logger // nil = nowhere
}

// Group is this gate's end of a group of gates. [New] makes one, [Group.Run]
// runs it. It is safe for concurrent use.
type Group struct {
	o     Options
	id    string
	board scriptRunner

	interval time.Duration // which never changes
	wake     chan struct{}
	done     chan callEnd

	mu       sync.Mutex // guards the fields below; never held across a wait
	book     *groupState
	landed   chan struct{} // closed when a call has ended, and made anew
	failure  string        // of the last call; "" = it was answered
	failedAt time.Time
	again    int64         // when the group may be told its rates again, after it did not answer
	calls    [2]uint64     // failed, answered
	took     time.Duration // the last call that was answered
}

// landing is the end of a call.
type callEnd struct {
	sent    int64
	calls   []call
	answers []answer // of the first calls, as far as they were made
	errs    []error  // of these; nil = answered
	rates   *rateCall
	reply   []string      // of rates
	err     error         // why Redis does not answer; nil = it does
	limit   string        // why it does not answer for some limit
	life    time.Duration // how long what is told of limits stands
	took    time.Duration
}

// New returns a group that nothing is known of. It does not connect: a server
// that is away is no reason not to begin.
func New(o Options) (*Group, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Gate == "" {
		o.Gate, _ = os.Hostname() // without one the gate has no name
	}
	board, err := newBoard(&o.Redis, timeout(&o.Settings))
	if err != nil {
		return nil, err
	}
	return newGroup(o, board), nil
}

// timeout bounds one run of the script: an answer that comes later than the next
// call is worth nothing.
func timeout(s *Settings) time.Duration { return s.withDefaults().Interval / 2 }

// newGroup returns a group whose script runs on the given board.
func newGroup(o Options, on scriptRunner) *Group {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	g := &Group{
		o: o, id: hex.EncodeToString(id[:]), board: on, interval: o.Settings.withDefaults().Interval, wake: make(chan struct{}, 1), done: make(chan callEnd, 1), landed: make(chan struct{}),
		book: newBook(o.Now(), hex.EncodeToString(id[:]), plainName(o.Gate), o.Settings, o.Buckets),
	}
	g.book.limits, g.book.sharing = o.Limits, o.Sharing
	g.book.close(o.Now())
	if o.Redis.Cluster {
		g.book.shards = clusterShards
	}
	return g
}

// clusterShards is over how many slots a group spreads its quotas in a cluster.
const clusterShards = 8

// plainName returns a gate's name as the script takes it: without spaces, and
// bounded.
func plainName(name string) string {
	out := make([]rune, 0, len(name))
	for _, r := range name {
		if r <= ' ' || r > '~' {
			r = '_'
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return "-"
	}
	return string(out[:min(len(out), 64)])
}

// Set changes the settings but the interval from the next look on, which is at
// once.
func (g *Group) Set(s Settings) {
	g.mu.Lock()
	s = s.withDefaults()
	s.Interval = g.interval
	g.book.Settings = s
	g.book.close(g.o.Now())
	g.mu.Unlock()
	g.Look()
}

// Look has the group look at its buckets now, since there are others.
func (g *Group) Look() {
	g.mu.Lock()
	g.book.listNow = true
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

// Run keeps the buckets filled until ctx is done, and then tells the group that
// this gate leaves. It may be called once. The error is always nil: a group that
// cannot be reached is a state, and no failure.
func (g *Group) Run(ctx context.Context) error {
	var flying, dry bool
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			if flying {
				g.land(<-g.done)
			}
			g.leave(context.WithoutCancel(ctx))
			return nil
		case <-g.book.dry: // the channel never changes
			dry = true
		case <-g.wake:
		case <-timer.C:
		case l := <-g.done:
			flying = false
			g.land(l)
		}
		l, shares, wait := g.step(flying, &dry)
		if l != nil {
			flying = true
			go g.fly(ctx, l, shares)
		}
		timer.Reset(wait)
	}
}

// step looks at the buckets, and returns the call that is due, if any, and when
// to step again.
func (g *Group) step(flying bool, dry *bool) (*callEnd, []sharedLimit, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	b := g.book
	if *dry {
		b.ranDry()
	}
	b.look(now)
	next := now + int64(b.tick())
	if !flying {
		due, early := b.wantsCall(now, *dry)
		if b.rates.due(now) && now >= g.again {
			g.again = now + int64(b.pace) // unless it is answered
			c := b.rates.prepare(now)
			return &callEnd{sent: now, rates: &c}, nil, b.tick()
		}
		if due {
			*dry = false
			if calls := b.prepare(now, early, false); calls != nil {
				l := &callEnd{sent: now, calls: calls, life: silentAfter * b.pace}
				if early {
					return l, nil, b.tick()
				}
				return l, slices.Clone(b.shares), b.tick()
			}
		}
		next = min(next, b.next, b.soon)
		if b.rates.due(now) {
			next = min(next, g.again)
		}
		if *dry {
			next = min(next, b.called+int64(b.pace/4))
		}
	}
	return nil, nil, max(time.Duration(next-now), time.Millisecond)
}

// fly makes a call. One is under way at a time.
func (g *Group) fly(ctx context.Context, l *callEnd, shares []sharedLimit) {
	begun := time.Now()
	if l.rates != nil {
		l.reply, l.err = g.runRates(ctx, l.rates)
	}
	for i := range l.calls {
		a, err := g.runOne(ctx, &l.calls[i])
		l.answers, l.errs = append(l.answers, a), append(l.errs, err)
		if err != nil && !errors.Is(err, errRefused) {
			l.err = err // nobody answers: the next one would wait as long
			break
		}
	}
	l.took = time.Since(begun)
	if l.err == nil {
		l.limit, l.err = g.exchange(ctx, shares, l.life, false)
	}
	g.done <- *l
}

// runRates runs the script of the rates once, for no longer than it may take.
func (g *Group) runRates(ctx context.Context, c *rateCall) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, g.interval/2)
	defer cancel()
	return g.board.run(ctx, scriptRates, rateKeys(g.o.Name), c.args)
}

// rateKeys returns the keys of the rates of a group.
func rateKeys(group string) []string {
	prefix := prefixOf(group, 0)
	return []string{prefix + "state", prefix + "rates", prefix + "versions", prefix + "files"}
}

// runOne runs the script once, for no longer than it may take.
func (g *Group) runOne(ctx context.Context, c *call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, g.interval/2)
	defer cancel()
	reply, err := g.board.run(ctx, scriptQuotas, c.keys(g.o.Name), c.args())
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(reply, len(c.asks))
}

// sayAgain is how often a failure that lasts is logged.
const sayAgain = time.Minute

// land takes the end of a call.
func (g *Group) land(l callEnd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer func() {
		close(g.landed)
		g.landed = make(chan struct{})
	}()
	now := g.o.Now()
	if l.rates != nil && l.err == nil {
		var changed bool
		if changed, l.err = g.book.rates.landed(now, l.sent, l.rates, l.reply); l.err == nil {
			g.again = now
		}
		if changed {
			g.book.ratesChanged(now)
		}
	}
	for i := range l.answers {
		if l.errs[i] == nil {
			g.book.landed(now, l.sent, &l.calls[i], &l.answers[i])
		} else if l.err == nil {
			l.err = l.errs[i]
		}
	}
	if l.calls != nil && l.err == nil {
		g.book.limitProblem = l.limit
	}
	if l.err == nil {
		g.calls[1]++
		g.took = l.took
		if g.failure != "" {
			g.failure, g.failedAt = "", time.Time{}
			g.o.Log.Info("the group answers again", slog.String("group", g.o.Name))
		}
		return
	}
	g.calls[0]++
	g.failure = l.err.Error()
	if time.Since(g.failedAt) >= sayAgain {
		g.failedAt = time.Now()
		g.o.Log.Warn("the group does not answer, the gate goes on without it", slog.String("group", g.o.Name),
			slog.String("fallback", string(g.book.Fallback)), slog.Any("error", l.err))
	}
}

// leave gives back what was not spent.
func (g *Group) leave(ctx context.Context) {
	g.mu.Lock()
	calls := g.book.prepare(g.o.Now(), false, true)
	shares := slices.Clone(g.book.shares)
	g.mu.Unlock()
	_, _ = g.exchange(ctx, shares, time.Second, true) // rows come down by themselves
	for i := range calls {
		if _, err := g.runOne(ctx, &calls[i]); err != nil {
			break // the leases end by themselves
		}
	}
	_ = g.board.close() // nothing is left to be lost
}
