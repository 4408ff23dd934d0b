package limiter

import "github.com/admitd/admitd/limiter/shed"

// decide spends the request's tokens and then asks for a permit: the way of one
// request, as docs/flow.md has it. It reads the clock, when now is unread, as
// late as it can: a clock reading costs as much as the rest of a refusal.
func (s *partitionSpec) decide(now int64, req *Request) (Permit, *Ticket, cause) {
	p, g := s.part, s.part.gate
	var e entry
	if s.unusual(req) {
		permit, as, why, done := s.special(now, req)
		if done {
			return permit, nil, why
		}
		e = as
	}
	cost, limit := req.cost(), s.reach(s.places(), e)
	full := p.tally.held() >= limit && s.mustRefuse(req)
	if full && s.is(probing) && p.counts.fates[fullPartition].refused()%lookEvery == 0 {
		now = g.clock.at(now)
		if s.lend(now, fullPartition) {
			limit = s.reach(s.places(), e)
			full = p.tally.held() >= limit
		}
	}
	if full && now == unread && s.holds(p.touched.at(), cost) {
		s.noteNoPermit(now, e, req.Shape)
		return Permit{}, nil, fullPartition
	}
	now = g.clock.at(now)
	p.touched.note(now)
	s.steered(now)
	if full && s.holds(now, cost) {
		s.noteNoPermit(now, e, req.Shape)
		return Permit{}, nil, fullPartition
	}
	if !s.take(now, cost) {
		if ticket, why := s.borrow(now, req); ticket != nil || why != admitted {
			return Permit{}, ticket, why
		}
	}
	if s.is(pooled) && s.mustRefuse(req) && s.common.backend.fair.contended(now) {
		e.leaves = s.common.backend.fair.leaves(now, s)
	}
	pass, why := s.mayPass(req, e.rank)
	if pass {
		at, full, ok := p.acquire(s, limit, e)
		if ok {
			return p.grant(now, at, s, req.Shape), nil, admitted
		}
		p.undoAcquire(now, full)
		if at, why, ok = p.borrowed(now, s, e, full); ok {
			return p.grant(now, at, s, req.Shape), nil, admitted
		}
	} else {
		s.lend(now, why)
	}
	if ticket := s.queue(now, req, e); ticket != nil {
		return Permit{}, ticket, admitted
	}
	if why == fullTotal {
		s.common.backend.fair.refused(now, s)
	}
	s.noteNoPermit(now, e, req.Shape)
	s.refund(cost) // no work ran (ADR 1)
	return Permit{}, nil, why
}

// unusual reports whether there is more to decide about a request than its tokens
// and its permit.
func (s *partitionSpec) unusual(req *Request) bool {
	return s.is(lenient|blocked|classed) || req.Exempt || req.Shape != nil || s.part.gate.draining.Load()
}

// special decides about an unusual request, as far as it can be decided before the
// tokens: done says that it was. Otherwise e is how the request goes on.
func (s *partitionSpec) special(now int64, req *Request) (permit Permit, e entry, why cause, done bool) {
	p, g := s.part, s.part.gate
	switch {
	case s.is(blocked) && !s.is(lenient) && !req.Continues && !req.Ends && (req.Exempt || !g.draining.Load()):
		return Permit{}, e, rateOfPartition, true
	case s.is(lenient) || req.Exempt:
		now = g.clock.at(now)
		p.touched.note(now)
		return s.pass(now, req), e, admitted, true
	case g.draining.Load():
		return Permit{}, e, drainingIngress, true
	}
	if s.is(classed) {
		if e = s.passes(now, req); e.how == shed.Refused {
			why = shedPartition
			if s.is(pooled) {
				why = shedTotal
			}
			return Permit{}, e, why, true
		}
	}
	if req.Shape != nil && p.dominant.Capped(req.Shape) {
		req.Shape.Refused()
		return Permit{}, e, fullPartition, true
	}
	return Permit{}, e, admitted, false
}

// borrow pays for a request that did not find its tokens. It returns the ticket
// of one that has to wait for them, or why it is refused, or neither when the
// tokens have come meanwhile.
func (s *partitionSpec) borrow(now int64, req *Request) (*Ticket, cause) {
	dues := s.dues(req.cost())
	paid, wait, refused := Bill(dues[:]).Pay(now, req.MaxWait)
	switch {
	case refused != nil:
		return nil, s.refusedBy(refused, req.cost())
	case wait == 0:
		return nil, admitted
	}
	ticket := newTicket(now, s, req)
	ticket.owe(now, paid, wait)
	return ticket, admitted
}

// mayPass reports whether a request may take a permit before those who wait:
// none of them matters as much, in its partition and for the total anywhere,
// unless it cannot wait itself.
//
// why says what those wait for.
func (s *partitionSpec) mayPass(req *Request, r rank) (ok bool, why cause) {
	p := s.part
	if p.queued.Load() > 0 && p.aheadOf(r) > 0 {
		if s.is(pooled) && p.tally.held() < s.places() {
			return false, fullTotal
		}
		return false, fullPartition
	}
	if !s.is(pooled) || s.mustRefuse(req) {
		return true, admitted
	}
	behind := func(foremost int32) bool { return foremost != 0 && ranks-foremost <= int32(r) }
	if behind(s.line().foremost.Load()) || behind(p.gate.foremost.Load()) {
		return false, fullTotal
	}
	return true, admitted
}

// mustRefuse reports that a request that finds no permit could only be refused,
// so that a flood is refused by reading alone, without spending tokens and
// giving them back.
func (t traits) mustRefuse(req *Request) bool {
	return !t.is(queueing) || req.MaxWait < 0
}

// mayQueue reports whether a request that found no permit may join the line. While
// there is an overload the sheddable classes do not wait in automatic queues, but
// for their floor: each place that they wait for, critical work would wait for too.
func (s *partitionSpec) mayQueue(now int64, req *Request, e entry) bool {
	if s.is(auto) && s.shed != nil && e.rank.Sheddable() && e.how != shed.ByFloor && s.shed.Watching() {
		return false
	}
	switch {
	case s.mustRefuse(req):
		return false
	case !s.is(auto):
		return true
	case !s.is(pooled) || s.part.tally.held() >= s.places():
		return !s.part.lanes.shut(now, s.rank(req))
	}
	return s.line().takes(now, s, s.rank(req))
}

// queue has a request that found no permit join the line, and returns its ticket;
// nil when it may not.
func (s *partitionSpec) queue(now int64, req *Request, e entry) *Ticket {
	if !s.mayQueue(now, req, e) {
		return nil
	}
	ticket := newTicket(now, s, req)
	if !ticket.join(now) {
		return nil
	}
	if ticket.crowded {
		s.noteNoPermit(now, e, req.Shape)
	}
	return ticket
}

// pass lets a request through whatever the limits say, and counts what they
// would have said.
func (s *partitionSpec) pass(now int64, req *Request) Permit {
	p, cost := s.part, req.cost()
	switch {
	case s.mode == Off:
		permit := p.grant(now, p.force(s), s, req.Shape)
		permit.word |= permitBare
		return permit
	case req.Exempt && req.Continues:
		permit := p.grant(now, p.force(s), s, req.Shape)
		permit.word |= permitUnpaid
		return permit
	case req.Exempt:
		p.counts.exempted.Add(1)
		p.marks.set(restMark)
		s.spend(now, cost)
		return p.grant(now, p.force(s), s, req.Shape)
	}
	var why cause
	dues := s.dues(cost)
	paid, _, refused := Bill(dues[:]).Pay(now, NoWait)
	if refused != nil {
		why = s.refusedBy(refused, cost)
	} else {
		at, full, ok := p.acquire(s, s.places(), entry{})
		if ok {
			return p.grant(now, at, s, req.Shape)
		}
		paid.Refund() // as the refusal would
		why = full
	}
	p.counts.fates[why].spared.Add(1)
	p.marks.set(1 << why)
	permit := p.grant(now, p.force(s), s, req.Shape)
	permit.word |= permitUnpaid
	return permit
}

// headroom returns how many of limit permits are out of reach of the sheddable
// classes, so that a spike of critical work finds room before anything is shed:
// one in twenty, at least one. A limit below 4 has none to spare.
func headroom(limit int64) int64 {
	if limit < 4 {
		return 0
	}
	return max(limit/20, 1)
}

// classOrder says who goes first when not everything fits. The zero classOrder lets go first
// who comes first.
type classOrder struct {
	classes *Classes      // nil = there are none
	shed    *shed.Shedder // of the limit that binds; nil = there are no classes
}

// rank returns the place of the request's class.
func (l *classOrder) rank(req *Request) rank {
	if l.classes == nil {
		return 0
	}
	return l.classes.rank(req.Class)
}

// reach returns how many permits of a limit a request may be among.
func (l *classOrder) reach(limit int64, e entry) int64 {
	room := limit
	if l.classes != nil && e.how != shed.ByFloor && e.rank.Sheddable() {
		room -= headroom(limit)
	}
	if e.leaves > 0 && limit > 2 {
		room -= max(limit/e.leaves, 1)
	}
	return room
}

// entry is how a request comes to ask for a permit. The zero entry is that of all
// where there are no classes.
type entry struct {
	rank   rank
	how    shed.Pass
	leaves int64 // one in so many permits it leaves to those who had less; 0 = none
}

// passes asks the line about a request. now may be unread.
func (s *partitionSpec) passes(now int64, req *Request) entry {
	e, p := entry{rank: s.classes.rank(req.Class)}, s.part
	var due bool
	e.how, due = s.shed.Decide(e.rank, p.hash, p.gate.dice)
	switch {
	case e.how == shed.Refused && s.hasRoom() && s.shed.Lapse(p.gate.clock.at(now)):
		e.how = shed.Below
	case due:
		s.shed.Turn(p.gate.clock.at(now), &s.classes.Floor, s.use)
	}
	return e
}

// hasRoom reports whether less than half of the limit is held whose line it is.
func (s *partitionSpec) hasRoom() bool {
	if !s.is(pooled) {
		return 2*s.part.pool().fresh(s.part.tally.held()) < s.bound()
	}
	backend, total := s.common.bounds(s.part.gate.clock.Trusted())
	return (backend == 0 || 2*s.common.backend.pool().fresh(s.common.backend.held.held()) < backend) && (total == 0 || 2*s.part.gate.held.Load() < total)
}

// noteNoPermit notes that a request passed the line and found no room. Those who only
// wait behind a few others have found it.
func (s *partitionSpec) noteNoPermit(now int64, e entry, of *Shape) {
	if of != nil || s.is(classed) {
		s.part.lacks(now, s, e, of)
	}
}

// lacks tells of it those who make room.
func (p *partition) lacks(now int64, s *partitionSpec, e entry, of *Shape) {
	if of != nil {
		p.dominant.Unroomed(of)
	}
	if !s.is(classed) {
		return
	}
	if !s.shed.Watching() {
		s.shed.Begin(p.gate.clock.at(now), e.rank, p.hash)
	}
	s.shed.Short(e.rank, e.how)
}

// steered moves the line when that is due; now is read.
func (s *partitionSpec) steered(now int64) {
	if s.classes != nil {
		s.shed.Turn(now, &s.classes.Floor, s.use)
	}
}

// use returns the share of the limit that is held whose line it is.
func (s *partitionSpec) use() float64 {
	if !s.is(pooled) {
		return float64(s.part.pool().fresh(s.part.tally.held())) / float64(max(s.bound(), 1))
	}
	backend, total := s.common.bounds(s.part.gate.clock.Trusted())
	return max(float64(s.common.backend.pool().fresh(s.common.backend.held.held()))/float64(max(backend, 1)), float64(s.part.gate.held.Load())/float64(max(total, 1)))
}
