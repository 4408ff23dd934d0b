package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"
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
	Log    *slog.Logger // nil = nowhere
}

// Group is this gate's end of a group of gates. [New] makes one, [Group.Run]
// runs it. It is safe for concurrent use.
type Group struct {
	o      Options
	prefix string
	id     string
	board  board

	interval time.Duration // which never changes
	wake     chan struct{}
	done     chan landing

	mu       sync.Mutex // guards the fields below; never held across a wait
	book     *book
	failure  string // of the last call; "" = it was answered
	failedAt time.Time
	calls    [2]uint64     // failed, answered
	took     time.Duration // the last call that was answered
}

// landing is the end of a call.
type landing struct {
	sent    int64
	calls   []call
	answers []answer
	err     error
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
func newGroup(o Options, on board) *Group {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	g := &Group{
		o: o, prefix: "admitd:{" + o.Name + "}:", id: hex.EncodeToString(id[:]), board: on, interval: o.Settings.withDefaults().Interval, wake: make(chan struct{}, 1), done: make(chan landing, 1),
		book: newBook(o.Now(), hex.EncodeToString(id[:]), plainName(o.Gate), o.Settings, o.Buckets),
	}
	g.book.limits = o.Limits
	return g
}

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
	g.mu.Unlock()
	g.Look()
}

// Look has the group look at its buckets now, since there are others.
func (g *Group) Look() {
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
		calls, shares, wait := g.step(flying, &dry)
		if calls != nil {
			flying = true
			go g.fly(ctx, calls, shares)
		}
		timer.Reset(wait)
	}
}

// step looks at the buckets, and returns the call that is due, if any, and when
// to step again.
func (g *Group) step(flying bool, dry *bool) ([]call, []sharedLimit, time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	b := g.book
	b.look(now)
	next := now + int64(b.tick())
	if !flying {
		if due, early := b.wantsCall(now, *dry); due {
			*dry = false
			if calls := b.prepare(now, early, false); calls != nil {
				if early {
					return calls, nil, b.tick()
				}
				return calls, slices.Clone(b.shares), b.tick()
			}
		}
		next = min(next, b.next, b.soon)
		if *dry {
			next = min(next, b.called+int64(b.Interval/4))
		}
	}
	return nil, nil, max(time.Duration(next-now), time.Millisecond)
}

// fly makes a call. One is under way at a time.
func (g *Group) fly(ctx context.Context, calls []call, shares []sharedLimit) {
	l := landing{sent: g.o.Now(), calls: calls}
	begun := time.Now()
	for i := range calls {
		reply, err := g.runOne(ctx, &calls[i])
		if err != nil {
			l.err = err
			break
		}
		l.answers = append(l.answers, reply)
	}
	l.took = time.Since(begun)
	if l.err == nil {
		l.err = g.exchange(ctx, shares, false)
	}
	g.done <- l
}

// runOne runs the script once, for no longer than it may take.
func (g *Group) runOne(ctx context.Context, c *call) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.interval/2)
	defer cancel()
	reply, err := g.board.run(ctx, c.keys(g.prefix), c.args())
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(reply, len(c.asks))
}

// sayAgain is how often a failure that lasts is logged.
const sayAgain = time.Minute

// land takes the end of a call.
func (g *Group) land(l landing) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.o.Now()
	for i := range l.answers {
		g.book.landed(now, l.sent, &l.calls[i], &l.answers[i])
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
	_ = g.exchange(ctx, shares, true) // rows come down by themselves
	for i := range calls {
		if _, err := g.runOne(ctx, &calls[i]); err != nil {
			break // the leases end by themselves
		}
	}
	_ = g.board.close() // nothing is left to be lost
}
