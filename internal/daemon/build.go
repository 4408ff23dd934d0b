package daemon

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/labels"
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
	mode, err := limiter.ParseMode(in.Mode)
	if err != nil {
		return nil, err
	}
	p := &limiter.Policy{
		Mode: mode,
		Rate: limiter.Rate{
			PerSecond: in.Requests.Rate, BurstSeconds: in.Requests.BurstSeconds, QueueDepth: in.Requests.QueueDepth,
		},
		Total:         in.Partitions.Total,
		Shared:        in.Partitions.Share == config.ShareOne,
		Probe:         true,
		MaxPartitions: in.Partitions.Max,
		Gates:         max(int(in.Gates), 1), // auto: nothing is divided
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
	if in.Partitions.Share == config.ShareBackend && in.Partitioned() {
		return p, shareBackend(p, in, in, tune)
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
	signature := signatureOf(in, &form.Limit)
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

// signatureOf tells limits apart.
func signatureOf(in *config.Ingress, l *config.Limit) string {
	return fmt.Sprintf("%+v", limitSettings(in, l))
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
		s.Gates, s.Others = max(int(in.Gates), 1), in.Gates == config.Auto // the other algorithms are said to be left as they are
		s.Queued = queued(in)
	}
	return s
}

// queued reports whether requests of an ingress wait for a permit for as long as
// their clients would before they tried again.
func queued(in *config.Ingress) bool {
	_, _, ok := config.Patience(in)
	q := in.Partitions.Default.Queue
	return ok && (q.Auto || q.Depth > 0)
}

// classPolicy turns who goes first into a part of the gate's policy, nil when
// nobody does.
func classPolicy(in *config.Ingress) *limiter.Classes {
	c := &in.Classes
	if !c.Given() {
		return nil
	}
	out := &limiter.Classes{Default: labels.ParseClass(c.Default)}
	for i := range out.Floor {
		out.Floor[i] = c.FloorOf(labels.Classes()[i].String())
	}
	return out
}

// shapesOf returns how many shapes the gate learns, 0 = none.
func shapesOf(in *config.Ingress) int {
	if !in.Cost.Shapes.Learn {
		return 0
	}
	return in.Cost.Shapes.Max
}

// share marks the rates of a policy that the configuration shares.
func (fs *runningIngresses) share(in *config.Ingress, p *limiter.Policy) {
	gates := max(fs.sharers, 1)
	if in.Requests.Shared && p.Rate.PerSecond > 0 {
		p.Rate.Sharers, p.Rate.Sharing = gates, &fs.fleet.sharing
	}
	mark := func(shared bool, r *limiter.Rate) {
		if shared && r.PerSecond > 0 {
			r.Sharers, r.Sharing = gates, &fs.fleet.sharing
		}
	}
	mark(in.Partitions.Default.Shared, &p.Default.Rate)
	for i := range in.Partitions.Named {
		mark(in.Partitions.Named[i].Shared, &p.Named[i].Rate)
	}
	fs.poolCommon(in, p)
	pool := func(l *config.Limit, p *limiter.PartitionPolicy) {
		if p.Signature == signatureOf(in, l) { // else an override has given it a limit of its own
			fs.pool(in, l, p)
		}
	}
	for key, k := range p.Keys {
		form, _ := formOf(in, key)
		mark(form.Shared, &k.Rate)
		pool(&form.Limit, k)
	}
	pool(&in.Partitions.Default.Limit, &p.Default)
	for i := range in.Partitions.Named {
		pool(&in.Partitions.Named[i].Limit, &p.Named[i])
	}
}

// pool gives a partition its part of a limit that all gates share, if the
// configuration says so.
func (fs *runningIngresses) pool(in *config.Ingress, l *config.Limit, p *limiter.PartitionPolicy) {
	if !l.Shared || p.NewLimit == nil {
		return
	}
	p.Signature += " shared"
	p.NewLimit = fs.pooled(limitSettings(in, l))
}

// partOf changes the settings of a limit so that it begins at initial, is one of
// so many gates, and stays at least; 0 = as they are.
func partOf(s algorithms.Settings, initial, gates, least int) algorithms.Settings {
	whole := s
	s.Gates = gates
	s.MinLimit = max(s.MinLimit, least)
	if s.MaxLimit > 0 {
		s.MaxLimit = max(s.MaxLimit, s.MinLimit)
	}
	if initial > 0 {
		s.InitialLimit = initial
	}
	if s.InitialLimit > 0 {
		s.InitialLimit = max(s.InitialLimit, s.MinLimit)
	}
	if s.MaxLimit > 0 {
		s.InitialLimit = min(s.InitialLimit, s.MaxLimit)
	}
	if s.Validate() != nil {
		return whole
	}
	return s
}
