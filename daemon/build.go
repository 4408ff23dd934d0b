package daemon

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// This file is where the compiler checks that the rooms fit together.
var (
	_ limiter.Limit = algorithms.Limit(nil)
	_ limiter.Clock = (*clock.Guard)(nil)
)

// Policy turns one ingress of the configuration into a policy. A tune that is not
// nil may change the settings of each limit before it is made.
func Policy(in *config.Ingress, tune func(*algorithms.Settings)) (*limiter.Policy, error) {
	mode, err := parseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	p := &limiter.Policy{
		Mode: mode,
		Rate: limiter.Rate{
			PerSecond: in.Requests.Rate, BurstSeconds: in.Requests.BurstSeconds, QueueDepth: in.Requests.QueueDepth,
		},
		Total:         in.Partitions.Total,
		Shared:        in.Partitions.Share == "one",
		MaxPartitions: in.Partitions.Max,
		Gates:         in.Gates,
		Classes:       classPolicy(in),
		Shapes:        shapesOf(in),
	}
	form := in.Partitions.Default
	p.Default, err = buildPartition(in, limiter.DefaultPartition, &form, tune)
	if err != nil {
		return nil, err
	}
	for _, n := range in.Partitions.Named {
		form := n.Form()
		np, err := buildPartition(in, n.Name, &form, tune)
		if err != nil {
			return nil, err
		}
		np.Match = n.Match
		p.Named = append(p.Named, np)
	}
	return p, nil
}

// meet gives a limit the time that gates of one backend share: sh's clock is
// monotonic and begins with the process.
func (sh *shared) meet(s *algorithms.Settings) {
	s.Epoch = sh.started.UnixNano() - sh.zero
}

// buildPartition turns the form of a partition into its policy.
func buildPartition(in *config.Ingress, name string, form *config.Partition, tune func(*algorithms.Settings)) (limiter.PartitionPolicy, error) {
	s := limitSettings(in, &form.Limit)
	signature := fmt.Sprintf("%+v", s)
	if tune != nil {
		tune(&s)
	}
	if err := s.Validate(); err != nil {
		return limiter.PartitionPolicy{}, fmt.Errorf("partition %s: %w", name, err)
	}
	q := form.Queue
	if depth, wait, ok := config.Patience(in); ok && q.Auto {
		q = config.Queue{Depth: depth, MaxWait: config.Duration(wait)}
	}
	return limiter.PartitionPolicy{
		Name:       name,
		Rate:       limiter.Rate{PerSecond: form.Rate, BurstSeconds: form.BurstSeconds},
		NewLimit:   func() limiter.Limit { return mustLimit(s) },
		Signature:  signature,
		Fallback:   form.Limit.Fallback.Limit,
		QueueDepth: q.Depth,
		MaxWait:    time.Duration(q.MaxWait),
		QueueAuto:  q.Auto,
		Objective:  time.Duration(in.Objective),
		Weight:     form.Weight,
		MaxShare:   form.MaxShare,
	}, nil
}

// mustLimit makes a limit of settings that were validated.
func mustLimit(s algorithms.Settings) limiter.Limit {
	l, err := algorithms.New(s)
	if err != nil {
		panic(err) // validated in buildPartition: a fault of ours
	}
	return l
}

// limitSettings turns a limit of the configuration into the algorithm's settings.
// The configuration has filled in every default.
func limitSettings(in *config.Ingress, l *config.Limit) algorithms.Settings {
	s := algorithms.Settings{
		Algorithm: l.Algorithm, Objective: time.Duration(in.Objective),
		Keys: algorithms.Keys{
			Limit: l.Limit, InitialLimit: l.InitialLimit, MinLimit: l.MinLimit, MaxLimit: l.MaxLimit,
			RequestTimeout: time.Duration(l.RequestTimeout), BackoffRatio: l.BackoffRatio,
			Alpha: l.Alpha, Beta: l.Beta, RTTTolerance: l.RTTTolerance, LongWindow: l.LongWindow,
		},
		Window: algorithms.WindowOptions{
			Min: time.Duration(l.Window.Min), Max: time.Duration(l.Window.Max), Samples: l.Window.Samples,
		},
	}
	if l.Algorithm == algorithms.KindKnee {
		s.Gates = in.Gates // the others are said to be left as they are
	}
	return s
}

// parseMode turns the configuration's mode into the limiter's.
func parseMode(s string) (limiter.Mode, error) {
	for _, m := range []limiter.Mode{limiter.Enforce, limiter.Shadow, limiter.Off} {
		if m.String() == s {
			return m, nil
		}
	}
	return 0, fmt.Errorf("mode must be enforce, shadow or off (%s)", s)
}

// connections turns the configuration's connection limits into the door's.
func connections(c *config.Connections) ingress.Connections {
	out := ingress.Connections{
		Rate:    limiter.Rate{PerSecond: c.Rate, BurstSeconds: c.BurstSeconds, QueueDepth: c.QueueDepth},
		MaxOpen: c.MaxOpen, Reserved: c.Reserved,
	}
	if c.Shared && c.Rate > 0 {
		out.Rate.Sharers = 1 // the group tells how many
	}
	for _, p := range c.Exempt {
		out.Exempt = append(out.Exempt, p.Prefix)
	}
	return out
}
