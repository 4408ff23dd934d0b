package selection

import (
	"context"
	"sync"
	"time"
)

// DefaultIdleCheck is how long a server may go unused before it is asked again
// on selection (socketCheckIntervalMS).
const DefaultIdleCheck = 5 * time.Second

// SerialOptions tune a [Serial]. The zero value is ready for use: try once.
type SerialOptions struct {
	Options
	Seeds SeedOptions  // what is known of the deployment; the heartbeat is set here
	Check CheckOptions // how servers are asked
	// KeepTrying scans again and again, until Timeout, when no server suits.
	// False is the specification's serverSelectionTryOnce: one scan, then an
	// error, because the next process in line deserves a quick answer.
	KeepTrying bool
	// IdleCheck is how long a server may go unused before it is asked again
	// when selected. 0 = [DefaultIdleCheck], negative = never ask.
	IdleCheck time.Duration
}

// Serial selects servers without a monitor in the background: it looks at the
// servers while selecting, when what it knows is older than a heartbeat or
// does not suffice. It is meant for programs that do one thing at a time, and
// is not safe for concurrent use. Make one with [NewSerial].
//
// With try once, a selection takes up to one scan, whatever the timeout says:
// a scan ends after the check timeout at the latest, per generation of newly
// discovered members. With KeepTrying it takes up to the timeout plus one
// scan, and as little as the timeout less [MinHeartbeat].
type Serial struct {
	view     *View
	probe    *prober
	o        SerialOptions
	scanned  time.Time            // when the last scan ended; zero = never
	stale    bool                 // a scan is due whatever its age
	lastUsed map[string]time.Time // when each server last answered or was selected
}

// NewSerial returns a selector that starts from the seeds, each host:port. It
// asks no server before the first selection. The error matches [ErrSeeds].
func NewSerial(seeds []string, o SerialOptions) (*Serial, error) {
	t, err := Seeds(seeds, o.Seeds)
	if err != nil {
		return nil, err
	}
	o.Options = o.withDefaults()
	if o.IdleCheck == 0 {
		o.IdleCheck = DefaultIdleCheck
	}
	return &Serial{view: NewView(t), probe: newProber(o.Check), o: o, lastUsed: map[string]time.Time{}}, nil
}

// View returns the view that the selector keeps while it selects.
func (s *Serial) View() *View { return s.view }

// Close gives up idle connections.
func (s *Serial) Close() { s.probe.close() }

// Select returns a server for op. The error is an [*Error]. The caller calls
// Done, or Failed, on what it got.
func (s *Serial) Select(ctx context.Context, op Operation) (Selected, error) {
	picked, err := s.find(ctx, &op)
	if err != nil {
		return Selected{}, err
	}
	if s.idle(picked.Server.Address) && !s.revive(ctx, &op, picked.Server.Address) {
		picked.Done()
		// Once more, and without a second check: a deployment of broken
		// connections is found out by using one.
		if picked, err = s.find(ctx, &op); err != nil {
			return Selected{}, err
		}
	}
	s.lastUsed[picked.Server.Address] = time.Now()
	return picked, nil
}

// find is the algorithm of the specification for a single thread.
func (s *Serial) find(ctx context.Context, op *Operation) (Selected, error) {
	start := time.Now()
	s.o.logStarted(ctx, op, s.view.Topology())
	give := func(cause error) (Selected, error) {
		f := failure{op: *op, topology: s.view.Topology(), cause: cause, waited: time.Since(start)}
		return Selected{}, s.o.fail(ctx, f)
	}
	end := start.Add(max(s.o.Timeout, 0))
	stale := s.stale || s.scanned.IsZero() || time.Since(s.scanned) >= s.view.Topology().heartbeat()
	for scanned, told := false, false; ; told = true {
		if stale {
			if late, err := s.scan(ctx, end); late || err != nil {
				return give(err)
			}
			scanned = true
		}
		picked, err := s.pick(op)
		if err != nil {
			s.stale = true // what is wrong now may be put right before the next selection
			return give(err)
		}
		if picked.Server != nil {
			s.o.logSucceeded(ctx, op, s.view.Topology(), picked.Server)
			return picked, nil
		}
		stale, s.stale = true, true
		if s.over(scanned, end) {
			return give(nil)
		}
		if !told {
			s.o.logWaiting(ctx, op, s.view.Topology(), remaining(ctx, time.Until(end)))
		}
	}
}

// over reports whether a selection that found nothing has had its chances.
func (s *Serial) over(scanned bool, end time.Time) bool {
	if s.o.KeepTrying {
		return time.Now().After(end)
	}
	return scanned
}

// pick chooses from the present picture, at random: a single thread has no
// operations to compare by.
func (s *Serial) pick(op *Operation) (Selected, error) {
	found, err := s.view.Topology().appendSuitable(nil, op, s.o.Filter)
	if err != nil || len(found) == 0 {
		return Selected{}, err
	}
	server := s.o.choose(inWindow(found, s.o.LocalThreshold))
	server.ops.Add(1)
	return Selected{Server: server, view: s.view, open: true}, nil
}

// nextScan returns when the next scan may start.
func (s *Serial) nextScan() time.Time {
	if s.scanned.IsZero() {
		return time.Time{}
	}
	return s.scanned.Add(MinHeartbeat)
}

// scan asks every server, those found on the way included, and returns when
// all have answered or failed. The servers of one generation are asked at the
// same time, so that one that hangs does not hold up the rest. When it would
// have to start after end it is late, which matters to those who keep trying.
func (s *Serial) scan(ctx context.Context, end time.Time) (late bool, err error) {
	if s.o.KeepTrying && s.nextScan().After(end) {
		return true, nil
	}
	if wait := time.Until(s.nextScan()); wait > 0 && !pause(ctx, wait, nil) {
		return false, ctx.Err()
	}
	asked := map[string]bool{}
	for {
		var generation sync.WaitGroup
		before := len(asked)
		t := s.view.Topology()
		for _, server := range t.Servers {
			if !asked[server.Address] && t.Type != LoadBalanced {
				asked[server.Address] = true
				generation.Go(func() { _, _ = s.probe.check(ctx, s.view, server.Address) }) // the view has the error
			}
		}
		generation.Wait()
		if err := ctx.Err(); err != nil {
			return false, err
		}
		if len(asked) == before {
			break
		}
	}
	s.scanned, s.stale = time.Now(), false
	clear(s.lastUsed) // members that are gone leave no trace
	for _, server := range s.view.Topology().Servers {
		s.lastUsed[server.Address] = s.scanned
	}
	return false, nil
}

// idle reports whether the server has to be asked before it is used.
func (s *Serial) idle(address string) bool {
	last, used := s.lastUsed[address]
	return used && s.o.IdleCheck > 0 && time.Since(last) >= s.o.IdleCheck
}

// revive asks an idle server and reports whether it still suits op.
func (s *Serial) revive(ctx context.Context, op *Operation, address string) bool {
	if s.view.Topology().Type == LoadBalanced {
		return true
	}
	if _, err := s.probe.check(ctx, s.view, address); err != nil {
		return false
	}
	found, err := s.view.Topology().appendSuitable(nil, op, s.o.Filter)
	if err != nil {
		return false
	}
	for _, server := range found {
		if server.Address == address {
			return true
		}
	}
	return false
}
