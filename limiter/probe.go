package limiter

import (
	"sync"
	"sync/atomic"
	"time"
)

// Times and bounds of probes.
const (
	// silence is the least time for which no permit is granted, while requests are
	// refused or wait for want of one, before the backend counts as stalled.
	silence = 2 * time.Second
	// unknownSilence is the same where nothing is known of how long the backend takes.
	unknownSilence = 10 * time.Second
	// silenceBases is the same in latencies without load.
	silenceBases = 8
	// silenceHolds is the same in the longest times that permits were held of late.
	silenceHolds = 2
	// forgetHold is after how many coarse seconds half of the longest time that a
	// permit was held counts.
	forgetHold = 128
	// probeEvery is the least time between two probes.
	probeEvery = time.Second
	// minProbes is how many permits are lent at most before small limits.
	minProbes = 8
	// spareProbes has those that are lent, minProbes or many more, last for half a minute
	// when each waits for a part of the time since the first.
	spareProbes = 5
	// lookEvery is how many requests that can only be refused, of one partition, share a
	// look at whether the backend has stalled: it needs the clock.
	lookEvery = 4
	// holdShift makes of nanoseconds the unit of prober.longest, about a millisecond.
	holdShift = 20
)

// A prober finds out when a backend that has stopped to answer does so again (ADR 35).
//
// Permits whose requests hang are held until they time out, which may be long after the
// backend has recovered. The backend counts as stalled when none of them has ended for so
// long that none was granted, while somebody wanted one. Then a permit is lent beyond the
// limit, one more each second or so, to requests that wait or come: the probes. As soon
// as one of them is answered, the permits of before the stall count less: the requests
// that may be at work beside them double with each answer, up to the limit.
//
// Of n permits that were held when the stall began, at least [minProbes], no more than n
// are lent while nothing is answered, and 3n are held altogether at most. Where requests are
// known to take long the stall begins later, so that a slow backend is lent nothing.
type prober struct {
	longest   atomic.Uint32 // time that a permit of a success was held of late, in ns >> holdShift; 0 = unknown
	longestAt atomic.Uint32 // coarse second in which longest was noted

	watched atomic.Int64  // monotonic ns since when no permit was granted though one was wanted; 0 = nobody wanted one
	granted atomic.Uint64 // permits ever granted then
	stall   atomic.Pointer[stall]
}

// stall is what is known of a backend that has stopped to answer.
type stall struct {
	since    atomic.Int64 // monotonic ns; permits granted up to then are old
	old      atomic.Int64 // of those, the ones that are held
	lent     atomic.Int64 // permits that may be held besides the old ones; once resumed, no more than the limit
	answered atomic.Int64 // monotonic ns of the first answer; 0 = there was none
	resumed  atomic.Bool  // a probe was answered
	probes   int64        // the most that are lent before that
	most     int64        // that may be held in all

	mu    sync.Mutex // guards the fields below and changes of those above; never held across a wait
	over  bool       // no old permit is held any more
	began int64      // monotonic ns when it was found
	next  int64      // monotonic ns when one more is lent
}

// A pool is a limit's permits with its prober.
type pool struct {
	held   *tally
	probed *atomic.Bool // there is a stall
	*prober
}

// pool returns the permits of the partition.
func (p *partition) pool() pool { return pool{&p.tally, &p.probed, &p.prober} }

// pool returns the permits of the common limit.
func (b *Backend) pool() pool { return pool{&b.held, &b.probed, &b.prober} }

// lend is told that a request found no permit, for the given cause, and reports
// whether there may be one more now. It does nothing where the policy lends none.
func (s *partitionSpec) lend(now int64, why cause) bool {
	if !s.is(probing) || !s.part.gate.clock.Trusted() {
		return false
	}
	base, more := s.baseRTT(), false
	if base == 0 && s.common.limit != nil {
		base = estimate{s.common.limit}.baseRTT()
	}
	if why == fullPartition && (!s.is(shared) || s.part.tally.held() >= s.bound()) {
		more = s.part.pool().lend(now, base)
	}
	if s.common.limit != nil && (why == fullTotal || s.is(shared)) {
		more = s.common.backend.pool().lend(now, base) || more
	}
	if line := s.line(); more && line.waiting.Load() > 0 {
		line.wakeAside(now) // who waits goes first
	}
	return more
}

// borrowed takes a permit that is lent, for a request that found none for the given
// cause: first one of the partition, and then one of what the partitions share.
func (p *partition) borrowed(now int64, s *partitionSpec, e entry, why cause) (at reservation, last cause, ok bool) {
	for range 2 {
		if !s.lend(now, why) {
			break
		}
		if at, why, ok = p.acquire(s, s.reach(s.places(), e), e); ok {
			break
		}
		p.undoAcquire(now, why)
	}
	return at, why, ok
}

// ended notes that a permit of s was given back, and reports whether what became of it
// tells anything of the backend as it is now. Permits of a policy that asks for no probes
// count in a stall too: it may have been found under a later policy.
func (s *partitionSpec) ended(now int64, permit Permit, o Outcome) (tells bool) {
	if !s.is(probing) && !s.stalled() {
		return true
	}
	clock := &s.part.gate.clock
	tells = s.part.pool().ended(clock, now, permit.start, o)
	if s.common.limit != nil && permit.word&permitTotal != 0 {
		tells = s.common.backend.pool().ended(clock, now, permit.start, o) && tells
	}
	return tells
}

// stalled reports whether there is a stall of the partition or of what the partitions
// share.
func (s *partitionSpec) stalled() bool {
	return s.part.probed.Load() || s.common.backend.probed.Load()
}

// lend is [partitionSpec.lend] for one limit. base is the latency without load, 0 =
// unknown.
func (l pool) lend(now int64, base time.Duration) bool {
	st := l.stall.Load()
	if st != nil && !st.resumed.Load() {
		return l.another(now, st)
	}
	if !l.silent(now, base) {
		return false
	}
	if st != nil {
		return l.again(now, st)
	}
	return l.begin(now)
}

// silent reports whether no permit was granted for so long that the backend must have
// stopped to answer.
func (l pool) silent(now int64, base time.Duration) bool {
	since, granted := l.watched.Load(), l.held.granted()
	if since == 0 || l.granted.Load() != granted {
		l.granted.Store(granted)
		l.watched.Store(now)
		return false
	}
	return now-since >= int64(l.patience(now, base))
}

// patience returns for how long nothing ends before the backend counts as stalled.
func (r *prober) patience(now int64, base time.Duration) time.Duration {
	hold := r.hold(now)
	if hold == 0 && base == 0 {
		return unknownSilence
	}
	return max(silence, silenceBases*base, silenceHolds*hold)
}

// hold returns the longest time that a permit of a success was held of late.
func (r *prober) hold(now int64) time.Duration {
	age := uint32(now>>coarseShift) - r.longestAt.Load()
	return time.Duration(r.longest.Load()>>min(age/forgetHold, 31)) << holdShift
}

// learn notes for how long the permit of a success was held.
func (r *prober) learn(now int64, held time.Duration) {
	if held > r.hold(now) {
		r.longestAt.Store(uint32(now >> coarseShift))
		r.longest.Store(uint32(min(held>>holdShift+1, 1<<31)))
	}
}

// begin lends the first permit of a stall. All permits held were granted before now:
// none was since silent first looked. If one is granted or ends meanwhile, it is no
// stall.
func (l pool) begin(now int64) bool {
	word := l.held.word.Load()
	old := int64(word & maxHeld)
	if old == 0 || word>>heldBits != l.granted.Load() {
		return false
	}
	n := max(old, minProbes)
	st := &stall{began: now, probes: n, most: 3 * n, next: now + int64(probeEvery)}
	st.since.Store(now - 1) // a probe may be granted at now
	st.old.Store(old)
	st.lent.Store(1)
	st.mu.Lock()
	defer st.mu.Unlock()
	if !l.stall.CompareAndSwap(nil, st) {
		return false
	}
	l.probed.Store(true)
	if l.held.word.Load() != word {
		l.closeLocked(st)
		return false
	}
	return true
}

// another lends one more permit when that is due.
func (l pool) another(now int64, st *stall) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	lent := st.lent.Load()
	if st.over || st.resumed.Load() || now < st.next || lent >= st.probes {
		return false
	}
	st.lent.Store(lent + 1)
	st.next = now + max(int64(probeEvery), 2*(now-st.began)/(st.probes-spareProbes))
	return true
}

// again begins a stall anew whose backend had resumed, and has stopped to answer once
// more.
func (l pool) again(now int64, st *stall) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	word := l.held.word.Load()
	if st.over || !st.resumed.Load() || word>>heldBits != l.granted.Load() || !l.countLocked(st, word, now-1) {
		return false
	}
	st.began, st.next = now, now+int64(probeEvery)
	st.lent.Store(1)
	st.answered.Store(0)
	st.resumed.Store(false)
	return true
}

// countLocked takes all permits that are held, as word counts them, for old: they were
// granted up to since. It does not when one was granted or ended meanwhile.
func (l pool) countLocked(st *stall, word uint64, since int64) bool {
	sinceBefore, old := st.since.Load(), st.old.Load()
	st.since.Store(since)
	st.old.Store(int64(word & maxHeld))
	if l.held.word.Load() != word {
		st.since.Store(sinceBefore)
		st.old.Store(old)
		return false
	}
	return true
}

// ended notes that a permit was given back, which was granted at start, and reports
// whether what became of it tells anything of the backend as it is now: of permits from
// before a stall nothing does that is over.
func (l pool) ended(clock *gateClock, now, start int64, o Outcome) (tells bool) {
	held, st := time.Duration(now-start), l.stall.Load()
	if st == nil {
		if o == Success {
			l.learn(now, held)
		}
		return true
	}
	if start > st.since.Load() && st.lent.Load() > maxHeld {
		if o == Success {
			l.learn(now, min(held, time.Duration(now-st.answered.Load())))
		}
		return true
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.over {
		return true
	}
	old := start <= st.since.Load()
	tells = !old || !st.resumed.Load()
	if old {
		st.old.Add(-1)
	}
	if o == Success {
		st.answered.CompareAndSwap(0, now)
		// Before the first answer nobody knows whether it was slow or stood still.
		l.learn(now, min(held, time.Duration(now-st.answered.Load())))
		if !old {
			l.resumeLocked(clock, st)
		}
	}
	if st.old.Load() <= 0 {
		l.closeLocked(st)
	}
	return tells
}

// resumeLocked has more requests be at work beside the old permits, since a probe was
// answered. The other probes count among the old ones from then on.
func (l pool) resumeLocked(clock *gateClock, st *stall) {
	word := l.held.word.Load() // before the clock is read: what it counts was granted up to then
	switch {
	case st.resumed.Load():
		st.lent.Store(min(2*st.lent.Load(), 2*maxHeld))
	case l.countLocked(st, word, clock.Now()):
		st.lent.Store(2)
		st.resumed.Store(true)
	case st.lent.Load() < st.probes: // the next answer will do it
		st.lent.Add(1)
	}
}

// closeLocked ends the stall.
func (l pool) closeLocked(st *stall) {
	st.over = true
	l.probed.Store(false)
	l.watched.Store(0)
	l.stall.CompareAndSwap(st, nil)
}

// places returns how many permits may be held during a stall, whatever the limit; 0 = as
// the limit says.
func (l pool) places(limit int64) int64 {
	st := l.stall.Load()
	if st == nil {
		return 0
	}
	fresh := st.lent.Load()
	if st.resumed.Load() {
		fresh = min(fresh, max(limit, 1))
	}
	return min(max(st.old.Load(), 0)+fresh, st.most, maxHeld)
}

// fresh returns how many of held permits are not of before a stall.
func (l pool) fresh(held int64) int64 {
	if st := l.stall.Load(); st != nil {
		return max(held-max(st.old.Load(), 0), 1)
	}
	return held
}
