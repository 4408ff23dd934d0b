package postgresgate

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/limiter"
)

// Activity tells which processes of one server wait for a lock. It is used by one
// goroutine at a time.
type Activity interface {
	// LockWaiters returns the process ids of the sessions that wait for a lock of
	// another session.
	LockWaiters(ctx context.Context) (pids []uint32, err error)
	// Close ends the connection, within a second; LockWaiters opens another one.
	Close() error
}

const (
	// lookEvery is how often sessions that are idle inside a transaction are looked
	// for, while a statement waits for a permit or was refused one.
	lookEvery = 50 * time.Millisecond
	// perRound is how many looks are a round.
	perRound = 5
	// askEvery is how often the server is asked who waits for a lock, while a
	// statement waits for a permit or a permit is suspended: once in a round.
	askEvery = perRound * lookEvery
	// askTimeout bounds one question, connecting included.
	askTimeout = 2 * time.Second
	// askAgain is how long a server that could not be asked is left alone.
	askAgain = 5 * time.Second
	// quietRounds is after how many rounds without need the connections close.
	quietRounds = 40

	// longRounds and longBy say when a statement has lasted much longer than usual:
	// for that many rounds, and so many times the mean latency of its partition.
	longRounds = 4
	longBy     = 10
	// leastShared is the smallest limit of which a share is kept.
	leastShared = 4
)

// suspender gives back the permits of sessions that wait for a lock: they work as
// little as those that are idle inside a transaction, and the holder of the lock may
// need a permit. With an [Activity] it knows who waits; without, it keeps a quarter
// of each limit free of statements that have lasted much longer than usual. Where
// transactions keep their permits it has those yield it that are idle. It makes
// rounds while somebody waits for a permit, was refused one, or is suspended. It is
// safe for concurrent use.
type suspender struct {
	srv    *Server
	wanted atomic.Bool                              // since the last round a unit waited for a permit or got none
	now    atomic.Int64                             // sessions that are suspended
	errors atomic.Int64                             // questions that failed
	stuck  atomic.Pointer[map[string]time.Duration] // see stuckFor

	mu      sync.Mutex // guards the field below
	running bool

	// Only for beat, which runs once at a time.
	under     *settings             // by which asked is
	asked     []*askedServer        // by backend; none = nobody can be asked
	suspended map[*session]string   // with the partition of its permit; "" = of any
	waited    map[*session]struct{} // those that waited for a lock in the round before
	looks     int                   // since the last round
	tick      uint32                // of the round before
	quiet     int                   // rounds without need
	grants    map[string]grant      // of partitions that are full
}

// askedServer is a backend that can be asked.
type askedServer struct {
	address  string
	activity Activity
	after    time.Time // when it may be asked again
	failing  bool
}

// renew has it ask the servers of the options in force.
func (u *suspender) renew() {
	now := u.srv.current.Load()
	if now == u.under {
		return
	}
	for _, a := range u.asked {
		_ = a.activity.Close()
	}
	for s := range u.suspended { // who waits is found out anew
		s.rs.Resume()
	}
	u.under, u.asked = now, nil
	if now.Activity == nil {
		return
	}
	for _, address := range now.Backends {
		u.asked = append(u.asked, &askedServer{address: address, activity: now.Activity(address)})
	}
}

// full notes that a unit waits for a permit, or was refused one.
func (u *suspender) full() {
	if u.wanted.Load() {
		return
	}
	u.wanted.Store(true)
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.running {
		u.running = true
		time.AfterFunc(lookEvery, u.beat)
	}
}

// beat looks for idle sessions and makes a round if there is need, and has the next
// look follow until there has been none for a while.
func (u *suspender) beat() {
	tick := u.srv.sessions.Tick()
	if u.wanted.Load() {
		u.yieldIdle(tick - 1)
	}
	if u.looks++; u.looks >= perRound {
		u.looks = 0
		if u.wanted.Swap(false) || len(u.suspended) > 0 {
			u.quiet = 0
			u.round(tick)
		} else if u.quiet++; u.quiet >= quietRounds && u.stop() {
			return
		}
	}
	time.AfterFunc(lookEvery, u.beat)
}

// yieldIdle has sessions give their permit back that have been idle inside a
// transaction since before the tick.
func (u *suspender) yieldIdle(tick uint32) {
	u.srv.sessions.Each(func(rs *relay.Session) {
		if s := rs.Protocol().(*session); s.o.IdleInTransaction == IdleAuto { //nolint:forcetypeassert // the relay is the server's own
			rs.Yield(tick, s.back.soFar())
		}
	})
}

// stop closes the connections unless there is need again.
func (u *suspender) stop() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.wanted.Load() {
		return false
	}
	u.running, u.quiet, u.waited, u.grants = false, 0, nil, nil
	u.stuck.Store(nil)
	for _, a := range u.asked {
		_ = a.activity.Close()
	}
	return true
}

// round suspends who waits, and has those go on that do not wait any more.
func (u *suspender) round(tick uint32) {
	u.renew()
	before := u.tick
	u.tick = tick
	if len(u.asked) == 0 {
		u.keepShare()
	} else {
		u.follow(before)
	}
	for s := range u.suspended {
		if !s.rs.Suspended() {
			delete(u.suspended, s)
		}
	}
	u.now.Store(int64(len(u.suspended)))
	u.watchGrants()
}

// grant is when a partition that is full granted permits.
type grant struct {
	granted uint64    // permits, ever
	at      time.Time // when that was more than before, or the partition was first seen full
}

// watchGrants notes for how long full partitions have granted no permit.
func (u *suspender) watchGrants() {
	if u.srv.learner == nil {
		return
	}
	now, grants, stuck := time.Now(), map[string]grant{}, map[string]time.Duration{}
	for g := range u.srv.learner.Briefs() {
		if g.InFlight < g.Limit {
			continue
		}
		is, known := u.grants[g.Name]
		if !known || g.Admitted != is.granted {
			is = grant{granted: g.Admitted, at: now}
		}
		grants[g.Name], stuck[g.Name] = is, now.Sub(is.at)
	}
	u.grants = grants
	u.stuck.Store(&stuck)
}

// stuckFor returns for how long a full partition has granted no permit, 0 = it did
// in the last round. It is the least that a wait can honestly be said to take: how
// long permits were held before says little when none has ended since.
func (u *suspender) stuckFor(partition string) time.Duration {
	if stuck := u.stuck.Load(); stuck != nil {
		return (*stuck)[partition]
	}
	return 0
}

// follow suspends the sessions that waited for a lock in the round before, and still
// do with the permit that they had then. One round would not do: many sessions that
// write to one row wait for it again and again, and each only for a moment.
func (u *suspender) follow(before uint32) {
	waiting := map[*session]struct{}{}
	for _, a := range u.asked {
		for _, pid := range u.ask(a) {
			if s := u.srv.keys.process(a.address, pid); s != nil {
				waiting[s] = struct{}{}
			}
		}
	}
	for s := range u.suspended {
		if _, still := waiting[s]; !still {
			s.rs.Resume()
		}
	}
	for s := range waiting {
		if _, twice := u.waited[s]; twice && s.rs.Suspend(before) {
			u.note(s, "")
		}
	}
	u.waited = waiting
}

// note notes that a session is suspended, which held a permit of the partition.
func (u *suspender) note(s *session, partition string) {
	if u.suspended == nil {
		u.suspended = map[*session]string{}
	}
	u.suspended[s] = partition
}

// ask asks a server. One that cannot be asked has nobody who waits.
func (u *suspender) ask(a *askedServer) []uint32 {
	now := time.Now()
	if now.Before(a.after) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout) //nolint:forbidigo // of no request
	defer cancel()
	pids, err := a.activity.LockWaiters(ctx)
	if err == nil {
		if a.failing {
			a.failing = false
			u.srv.current.Load().Log.Info("the server can be asked again who waits for a lock", slog.String("ingress", u.srv.name), slog.String("backend", a.address))
		}
		return pids
	}
	u.errors.Add(1)
	a.after = now.Add(askAgain)
	_ = a.activity.Close()
	if !a.failing {
		a.failing = true
		u.srv.current.Load().Log.Warn("the server cannot be asked who waits for a lock: permits of sessions that do are not given back",
			slog.String("ingress", u.srv.name), slog.String("backend", a.address), slog.Any("error", err))
	}
	return nil
}

// keepShare suspends statements that have lasted much longer than usual, in
// partitions that are full, as far as they hold more than three quarters of the
// limit. It suspends as many as the limit at most, since they may be at work.
func (u *suspender) keepShare() {
	if u.srv.learner == nil || u.srv.current.Load().IdleInTransaction == IdleKeep {
		return
	}
	held := map[string][]*session{}
	u.srv.sessions.Each(func(rs *relay.Session) {
		if name, before := rs.Held(u.tick - longRounds*perRound); before {
			held[name] = append(held[name], rs.Protocol().(*session)) //nolint:forcetypeassert // the relay is the server's own
		}
	})
	if len(held) == 0 {
		return
	}
	suspended := map[string]int{}
	for _, name := range u.suspended {
		suspended[name]++
	}
	for g := range u.srv.learner.Briefs() {
		if len(held[g.Name]) > 0 && g.Limit >= leastShared && g.InFlight >= g.Limit && g.Succeeded > 0 {
			u.share(&g, held[g.Name], g.Limit-suspended[g.Name])
		}
	}
}

// share suspends room at most of the sessions that have held a permit of a full
// partition for long.
func (u *suspender) share(g *limiter.Brief, held []*session, room int) {
	usual := g.Busy / time.Duration(g.Succeeded)
	rounds := perRound * max(longRounds, uint32(min(longBy*usual/askEvery, 1<<20)))
	held = slices.DeleteFunc(held, func(s *session) bool {
		_, long := s.rs.Held(u.tick - rounds)
		return !long
	})
	more := min(len(held)-(g.Limit-g.Limit/4), room)
	for _, s := range held {
		if more <= 0 {
			return
		}
		if s.rs.Suspend(u.tick - rounds) {
			u.note(s, g.Name)
			more--
		}
	}
}
