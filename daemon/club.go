package daemon

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/daemon/keys"
	"github.com/admitd/admitd/fleet"
	"github.com/admitd/admitd/fleet/pool"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// club is the group that this daemon shares rates with, if any. A reload may
// change it for another.
type club struct {
	*shared

	fronts *fronts
	path   string        // of the configuration; "" = built in
	other  chan struct{} // has room for one: group is another

	mu    sync.Mutex // guards the fields below; never held across a wait
	group *fleet.Group
	cfg   config.Fleet
}

// newClub returns a club of which this daemon is no member yet.
func newClub(sh *shared, fs *fronts, path string) *club {
	return &club{shared: sh, fronts: fs, path: path, other: make(chan struct{}, 1)}
}

// prepare builds what a configuration needs, and returns what puts it in force
// once the gates are there, which cannot fail.
func (c *club) prepare(cfg *config.Config) (join func(), err error) {
	c.mu.Lock()
	group, old := c.group, c.cfg
	c.mu.Unlock()
	next := cfg.Fleet
	switch {
	case len(next.Redis.Addresses) == 0:
		group = nil
	case group == nil || !reflect.DeepEqual(old.Redis, next.Redis) || old.Group != next.Group || old.Interval != next.Interval:
		if group, err = c.newGroup(&next); err != nil {
			return nil, err
		}
	}
	return func() { c.join(group, next) }, nil
}

// newGroup builds the group; it connects to nobody yet.
func (c *club) newGroup(f *config.Fleet) (*fleet.Group, error) {
	r := fleet.Redis{
		Addresses: f.Redis.Addresses, Master: f.Redis.Master, Cluster: f.Redis.Cluster,
		Username: f.Redis.Username, PasswordFile: f.Redis.PasswordFile,
		SentinelUsername: f.Redis.SentinelUsername, SentinelPasswordFile: f.Redis.SentinelPasswordFile,
	}
	var err error
	if r.TLS, err = keys.Fleet(&f.Redis.TLS); err != nil {
		return nil, fmt.Errorf("fleet.redis.tls: %w", err)
	}
	g, err := fleet.New(fleet.Options{
		Redis: r, Name: f.Group, Settings: c.settings(f), Now: c.clock.Now, Buckets: c.buckets, Limits: c.limits, Log: c.log,
	})
	if err != nil {
		return nil, fmt.Errorf("fleet.redis: %w", err)
	}
	return g, nil
}

// settings are what a group can be told while it runs.
func (c *club) settings(f *config.Fleet) fleet.Settings {
	s := fleet.Settings{
		Interval: time.Duration(f.Interval), Lease: time.Duration(f.Lease), Gates: f.Gates, Fallback: fleet.Fallback(f.Fallback),
		Version: c.started.UnixMilli(),
	}
	if info, err := os.Stat(c.path); err == nil {
		s.Version = info.ModTime().UnixMilli()
	}
	return s
}

// join goes on with a group, nil = none.
func (c *club) join(g *fleet.Group, cfg config.Fleet) {
	c.mu.Lock()
	changed := c.group != g
	c.group, c.cfg = g, cfg
	c.mu.Unlock()
	if g != nil {
		g.Set(c.settings(&cfg))
	}
	if changed {
		select {
		case c.other <- struct{}{}:
		default:
		}
	}
}

// current returns the group, nil = there is none.
func (c *club) current() *fleet.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group
}

// run is the actor that keeps shared buckets filled.
func (c *club) run(ctx context.Context) error {
	for ctx.Err() == nil {
		g := c.current()
		if g == nil {
			select {
			case <-ctx.Done():
			case <-c.other:
			}
			continue
		}
		member, leave := context.WithCancel(ctx)
		left := make(chan struct{})
		go func() { defer close(left); _ = g.Run(member) }()
		for c.current() == g && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-c.other:
			}
		}
		leave()
		<-left
	}
	return nil
}

// running lists the ingresses.
func (c *club) running() []*front {
	c.fronts.mu.RLock()
	defer c.fronts.mu.RUnlock()
	return slices.Collect(maps.Values(c.fronts.running))
}

// limits lists every limit that is shared, as all gates call it.
func (c *club) limits(yield func(name string, l *pool.Limit) bool) {
	for _, f := range c.running() {
		if in := c.fronts.ingress(f.name); in == nil || !in.Partitions.SharesLimit() {
			continue
		}
		f.gate.Limits(func(name, _ string, l limiter.Limit) bool {
			p, ok := l.(*pool.Limit)
			return !ok || yield(f.name+"/"+name, p)
		})
	}
}

// buckets lists every bucket whose rate is shared, as all gates call it.
func (c *club) buckets(yield func(name, label string, b *limiter.Bucket) bool) {
	for _, f := range c.running() {
		more := true
		f.gate.Shared(func(name, label string, b *limiter.Bucket) bool {
			if label == "" {
				more = yield(f.name, f.name, b)
			} else {
				more = yield(f.name+"/"+name, f.name+"/"+label, b)
			}
			return more
		})
		if f.server == nil || !more {
			continue
		}
		if b := f.server.Connections().Bucket; b.Rate().Sharers > 0 && !yield(f.name+"#connections", f.name+"#connections", b) {
			return
		}
	}
}

// status returns how this daemon stands in its group, nil without one.
func (c *club) status() *status.Fleet {
	g := c.current()
	if g == nil {
		return nil
	}
	s := g.Status()
	return &s
}

// detail is what /readyz says of a group that does not answer; "" = it does, or
// there is none.
func (c *club) detail() string {
	g := c.current()
	if g == nil {
		return ""
	}
	m, problem := g.Mode()
	switch {
	case m == fleet.Leased || problem == "":
		return ""
	case m == fleet.Kept:
		return "the fleet's group does not answer, shared rates stay at this gate's last share: " + problem
	default:
		return "the fleet's group does not answer, shared rates go by fallback " + string(m) + ": " + problem
	}
}

// clubCollector reads the group when somebody scrapes. Every label value comes
// from the configuration or a closed set.
type clubCollector struct {
	club                                              *club
	share, gates, age, mode, calls, failures, seconds *prometheus.Desc
}

func newClubCollector(c *club) *clubCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_fleet_"+name, help, labels, nil)
	}
	return &clubCollector{
		club:     c,
		share:    desc("share", "Part of a shared rate that this gate was lent last, tokens per second.", "quota"),
		gates:    desc("gates", "Gates of the group as this one saw it last."),
		age:      desc("lease_age_seconds", "Time since the group answered last."),
		mode:     desc("mode", "1 for what the gate goes by: leased, kept, or its fallback.", "mode"),
		calls:    desc("calls_total", "Calls that the group answered."),
		failures: desc("call_failures_total", "Calls that the group did not answer."),
		seconds:  desc("call_seconds", "How long the last call took that was answered."),
	}
}

// Describe implements [prometheus.Collector].
func (c *clubCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.share, c.gates, c.age, c.mode, c.calls, c.failures, c.seconds} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *clubCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.club.current()
	if g == nil {
		return
	}
	s := g.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...) //nolint:promlinter // as in the steward's
	}
	for _, sum := range g.Sums() {
		gauge(c.share, sum.Share, sum.Label)
	}
	gauge(c.gates, float64(s.Gates))
	gauge(c.age, s.AgeSeconds)
	gauge(c.seconds, s.CallMS/1000)
	for _, m := range fleet.Modes() {
		in := 0.0
		if string(m) == s.Mode {
			in = 1
		}
		gauge(c.mode, in, string(m))
	}
	ch <- prometheus.MustNewConstMetric(c.calls, prometheus.CounterValue, float64(s.Calls))       //nolint:promlinter // as in the steward's
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(s.Failures)) //nolint:promlinter // as above
}
