package fleet

import (
	"context"
	"fmt"
	"time"

	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Script is what runs inside Redis.
func Script() string { return quotasScript }

// A Sim is one gate's book, played in virtual time.
type Sim struct {
	*groupState
	board  *redisRunner
	looked int64
	again  int64
	dryNow bool
	Failed int
	Calls  int
}

// NewSim returns a gate of a group at now.
func NewSim(now int64, id string, s Settings, buckets Buckets, r *Redis) (*Sim, error) {
	on, err := newBoard(r, time.Second)
	if err != nil {
		return nil, err
	}
	return &Sim{groupState: newBook(now, id, id, s, buckets), board: on, looked: now - int64(time.Hour)}, nil
}

// Throw makes dice what the gate's own chance comes from, so that a world plays the
// same each time.
func (s *Sim) Throw(dice func() float64) { s.rand = dice }

// Step plays what the gate does at now. reach says whether its calls arrive and
// its answers return.
func (s *Sim) Step(now int64, reach, answer bool) {
	select {
	case <-s.dry:
		s.dryNow = true
	default:
	}
	due, _ := s.wantsCall(now, s.dryNow)
	if s.rates.due(now) && now >= s.again && reach && !s.sync(now, answer) {
		s.again = now + int64(s.pace)
		s.Failed++
	}
	if !due && now-s.looked < int64(s.tick()) {
		return
	}
	s.looked = now
	if s.dryNow {
		s.ranDry()
	}
	s.look(now)
	due, early := s.wantsCall(now, s.dryNow)
	if !due {
		return
	}
	s.dryNow = false
	calls := s.prepare(now, early, false)
	for i := range calls {
		s.Calls++
		if !reach {
			s.Failed++
			return
		}
		a, err := s.call(&calls[i])
		if err != nil || !answer {
			s.Failed++
			return
		}
		s.landed(now, now, &calls[i], &a)
	}
}

// sync tells the group of the rates, and hears of them.
func (s *Sim) sync(now int64, answer bool) bool {
	for s.rates.due(now) {
		c := s.rates.prepare(now)
		reply, err := s.board.run(context.Background(), scriptRates, rateKeys("sim"), c.args)
		if err != nil || !answer {
			return false
		}
		changed, err := s.rates.landed(now, now, &c, reply)
		if err != nil {
			return false
		}
		if changed {
			s.ratesChanged(now)
		}
	}
	return true
}

// Tell is what a gate's configuration says.
func (s *Sim) Tell(now int64, file bool, settings ...Setting) { s.rates.tell(now, settings, file) }

// Differs lists what of it is not in force.
func (s *Sim) Differs(now int64) []status.FleetRate { return s.rates.differs(now) }

// Leave says good-bye.
func (s *Sim) Leave(now int64) error {
	for _, c := range s.prepare(now, false, true) {
		if _, err := s.call(&c); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sim) call(c *call) (answer, error) {
	reply, err := s.board.run(context.Background(), scriptQuotas, c.keys("sim"), c.args())
	if err != nil {
		return answer{}, err
	}
	return parseAnswer(reply, len(c.asks))
}

// Close ends the connection.
func (s *Sim) Close() { _ = s.board.close() }

// Mode is what the gate goes by at now.
func (s *Sim) Mode(now int64) Mode { return s.mode(now) }

// Quota returns the share, the mode and the stock as the gate knows them.
func (s *Sim) Quota(name string) (share, level float64, m Mode, sharers int) {
	q := s.quotas[name]
	if q == nil {
		return 0, 0, "", 0
	}
	return q.share, q.level, q.mode, q.sharers
}

// Set changes the settings.
func (s *Sim) Set(next Settings) { s.Settings = next.withDefaults() }

// Exchange runs the script of limits once.
func (s *Sim) Exchange(life time.Duration, row *pool.Row, v *pool.Verdict) (pool.Board, error) {
	verdict := ""
	if v != nil {
		verdict = fmt.Sprintf("%d %d %d", v.Fence, v.Limit, v.Base)
	}
	reply, err := s.board.run(context.Background(), scriptLimits, []string{prefixOf("sim", 0) + "l:x"}, []any{row.ID, micros(life), row.String(), verdict})
	if err != nil {
		return pool.Board{}, err
	}
	return parseBoard(reply[0])
}

// CheckAnswer reads an answer of the script about so many quotas, and reports
// whether it was understood and what in it is out of bounds.
func CheckAnswer(reply []string, asks int) (understood bool, wrong string) {
	a, err := parseAnswer(reply, asks)
	if err != nil {
		return false, ""
	}
	if len(a.grants) != asks {
		return true, fmt.Sprint(len(a.grants), " grants")
	}
	for _, g := range a.grants {
		for _, x := range []float64{g.tokens, g.share, g.rate, g.burst, g.level} {
			if x != x || x > 1e18 || x < -1e18 {
				wrong = fmt.Sprintf("%+v", g)
			}
		}
		if g.tokens < 0 || g.share < 0 || g.rate <= 0 || g.sharers < 1 || g.sharers > 1<<20 || g.burst < 0 || g.wait < 0 {
			wrong = fmt.Sprintf("%+v", g)
		}
	}
	return true, wrong
}

// CheckReply reads a stream of replies in pieces of n bytes, and reports what is
// wrong with its lengths.
func CheckReply(stream string, n int) error {
	var c replyCheck
	for len(stream) > 0 {
		part := stream[:min(n, len(stream))]
		stream = stream[len(part):]
		if err := c.feed([]byte(part)); err != nil {
			return err
		}
	}
	return nil
}

// ErrReplyTooLarge is what CheckReply's errors wrap.
var ErrReplyTooLarge = errReplyTooLarge

// Rename calls the gate so.
func (s *Sim) Rename(name string) { s.name, s.rates.name = name, name }

// InForce returns the rate that the gate takes for the group's.
func (s *Sim) InForce(now int64, quota string) float64 {
	rate, _, _ := s.rates.inForce(now, settingField(quota), overrideField(quota))
	return rate
}

// Share says what the rates of the gate's buckets carry.
func (s *Sim) Share(with *limiter.Sharing) { s.sharing = with }

// Lists returns how many quotas are looked at every time, and how many now and then.
func (s *Sim) Lists() (active, idle int) { return len(s.active), len(s.idle) }

// Due has the next step make a call.
func (s *Sim) Due() { s.next = 0 }

// Pace is the time between two calls.
func (s *Sim) Pace() time.Duration { return s.pace }

// Granted returns the rate of a quota by which the group has answered last, and how
// long the quota waits before it asks again.
func (s *Sim) Granted(now int64, quota string) (rate float64, waits time.Duration) {
	q := s.quotas[quota]
	if q == nil {
		return 0, 0
	}
	return q.rate, time.Duration(q.notYet - now)
}

// CheckBoard reads what the script says of one limit.
func CheckBoard(text string) error {
	_, err := parseBoard(text)
	return err
}

// Restart has the gate tell its settings as one that has just begun.
func (s *Sim) Restart(now int64, settings ...Setting) {
	s.rates = rates{name: s.name}
	s.rates.tell(now, settings, true)
}
