package daemon

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/keys"
	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// fleetMember is the group that this daemon shares rates with, if any. A reload may
// change it for another.
type fleetMember struct {
	*shared

	fronts  *runningIngresses
	sharing limiter.Sharing // of every rate that is shared
	other   chan struct{}   // has room for one: group is another

	mu    sync.Mutex // guards the fields below; never held across a wait
	group *fleet.Group
	cfg   config.Fleet
}

// newClub returns a fleetMember of which this daemon is no member yet.
func newFleetMember(sh *shared, fs *runningIngresses) *fleetMember {
	return &fleetMember{shared: sh, fronts: fs, other: make(chan struct{}, 1)}
}

// prepare builds what a configuration needs, and returns what puts it in force
// once the gates are there, which cannot fail. anew says that it was read from a
// file.
func (c *fleetMember) prepare(cfg *config.Config, anew bool) (join func(), err error) {
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
	return func() {
		c.join(group, next)
		if group != nil {
			group.Tell(c.rates(cfg), anew)
		}
	}, nil
}

// newGroup builds the group; it connects to nobody yet.
func (c *fleetMember) newGroup(f *config.Fleet) (*fleet.Group, error) {
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
		Redis: r, Name: f.Group, Settings: c.settings(f), Now: c.clock.Now, Buckets: c.buckets, Limits: c.limits, Sharing: &c.sharing, Log: c.log,
	})
	if err != nil {
		return nil, fmt.Errorf("fleet.redis: %w", err)
	}
	return g, nil
}

// settings are what a group can be told while it runs.
func (c *fleetMember) settings(f *config.Fleet) fleet.Settings {
	return fleet.Settings{
		Interval: time.Duration(f.Interval), Lease: time.Duration(f.Lease), Gates: f.Gates, Fallback: fleet.Fallback(f.Fallback),
	}
}

// rates lists the shared rates of a configuration, and the overrides over them.
func (c *fleetMember) rates(cfg *config.Config) (list []fleet.Setting) {
	add := func(shared bool, name string, rate, burstSeconds float64) {
		if shared && rate > 0 {
			r := limiter.Rate{PerSecond: rate, BurstSeconds: burstSeconds}
			list = append(list, fleet.Setting{Name: name, PerSecond: rate, Burst: r.Burst()})
		}
	}
	for i := range cfg.Ingresses {
		in := &cfg.Ingresses[i]
		form := &in.Partitions.Default
		add(in.Requests.Shared, in.Name, in.Requests.Rate, in.Requests.BurstSeconds)
		add(in.Connections.Shared, in.Name+connectionsQuota, in.Connections.Rate, in.Connections.BurstSeconds)
		for _, name := range []string{"/=" + limiter.DefaultPartition, "/=" + limiter.OverflowPartition, "/~"} {
			add(form.Shared, in.Name+name, form.Rate, form.BurstSeconds)
		}
		for j := range in.Partitions.Named {
			n := &in.Partitions.Named[j]
			add(n.Shared, in.Name+"/="+n.Name, n.Rate, n.BurstSeconds)
		}
		c.fronts.overrides.rates(in, func(partition string, rate, burstSeconds float64, left time.Duration) {
			before := len(list)
			if add(true, in.Name+"/"+partition, rate, burstSeconds); len(list) > before {
				list[before].Override, list[before].For = true, left
			}
		})
	}
	return list
}

// connectionsQuota is what the quota of connections is called after its ingress.
const connectionsQuota = "#connections"

// takenWithin is how long somebody who changes a rate waits for the group.
const takenWithin = time.Second

// pending waits until the group has taken what this gate was told last, and
// returns what to say when it has not: this gate goes by it then, and the others
// do when the group is back.
func (c *fleetMember) pending(ctx context.Context) string {
	g := c.current()
	if g == nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, takenWithin)
	defer cancel()
	if err := g.Taken(ctx); err != nil {
		return err.Error() + "; it is told again until it has"
	}
	return ""
}

// join goes on with a group, nil = none.
func (c *fleetMember) join(g *fleet.Group, cfg config.Fleet) {
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
func (c *fleetMember) current() *fleet.Group {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.group
}

// run is the actor that keeps shared buckets filled.
func (c *fleetMember) run(ctx context.Context) error {
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
func (c *fleetMember) running() []*runningIngress {
	c.fronts.mu.RLock()
	defer c.fronts.mu.RUnlock()
	return slices.Collect(maps.Values(c.fronts.running))
}

// limits lists every limit that is shared, as all gates call it.
func (c *fleetMember) limits(yield func(name string, l *pool.Limit) bool) {
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
func (c *fleetMember) buckets(yield func(name, label string, b *limiter.Bucket) bool) {
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
		if b := f.server.Connections().Bucket; b.Rate().Sharers > 0 && !yield(f.name+connectionsQuota, f.name+connectionsQuota, b) {
			return
		}
	}
}

// status returns how this daemon stands in its group, nil without one.
func (c *fleetMember) status() *status.Fleet {
	g := c.current()
	if g == nil {
		return nil
	}
	s := g.Status()
	return &s
}

// details are what /readyz says of the group: that it does not answer, and that
// files of gates differ.
func (c *fleetMember) details() (list []string) {
	g := c.current()
	if g == nil {
		return nil
	}
	m, problem := g.Mode()
	switch {
	case m == fleet.Partly:
		list = append(list, "the fleet's group does not answer for all that is shared: "+problem)
	case m == fleet.Leased || problem == "":
	case m == fleet.Kept:
		list = append(list, "the fleet's group does not answer, shared rates stay at this gate's last share: "+problem)
	default:
		list = append(list, "the fleet's group does not answer, shared rates go by fallback "+string(m)+": "+problem)
	}
	differ, pending := g.Differs()
	if len(pending) > 0 {
		list = append(list, "the fleet's group has not taken "+firstOf(pending)+" as this gate was told")
	}
	if differ = byFile(differ); len(differ) > 0 {
		var told []string
		for i := range differ {
			told = append(told, rateWords(&differ[i]))
		}
		list = append(list, "shared rates differ between the files of gates: "+firstOf(told))
	}
	return list
}

// rateWords says what a shared rate is, and what this gate's configuration says.
func rateWords(d *status.FleetRate) string {
	return fmt.Sprintf("%s is %g/s by the file of gate %s, and %g/s in this gate's configuration", d.Name, d.PerSecond, d.By, d.OwnPerSecond)
}

// elsewhere returns what words the shared rates of an ingress that apply to one of its
// partitions and are in force by another gate's file; nil = there are none.
func elsewhere(group *status.Fleet, ingress string) func(partition string, key bool) string {
	if group == nil {
		return nil
	}
	differ := byFile(group.Differs)
	if len(differ) == 0 {
		return nil
	}
	return func(partition string, key bool) string {
		names := []string{ingress, ingress + "/=" + partition}
		if key {
			names = []string{ingress, ingress + "/~", ingress + "/~" + partition}
		}
		var told []string
		for i := range differ {
			if slices.Contains(names, differ[i].Name) {
				told = append(told, rateWords(&differ[i]))
			}
		}
		return strings.Join(told, "; ")
	}
}

// byFile returns the rates that are in force by another gate's file: what somebody
// set at run time is meant to differ.
func byFile(differ []status.FleetRate) []status.FleetRate {
	return slices.DeleteFunc(slices.Clone(differ), func(d status.FleetRate) bool { return d.Source != "file" })
}

// firstOf words a list, of which the first few are named.
func firstOf(list []string) string {
	if more := len(list) - 3; more > 0 {
		return strings.Join(list[:3], ", ") + fmt.Sprintf(" and %d more", more)
	}
	return strings.Join(list, ", ")
}

// fleetCollector reads the group when somebody scrapes. Every label value comes
// from the configuration or a closed set.
type fleetCollector struct {
	fleet                                             *fleetMember
	share, gates, age, mode, calls, failures, seconds *prometheus.Desc
	known, differ, pending                            *prometheus.Desc
}

func newFleetCollector(c *fleetMember) *fleetCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("admitd_fleet_"+name, help, labels, nil)
	}
	return &fleetCollector{
		fleet:    c,
		share:    desc("share", "Part of a shared rate that this gate was lent last, tokens per second.", "quota"),
		gates:    desc("gates", "Gates of the group as this one saw it last."),
		known:    desc("known_gates", "Gates of the group, and those that are expected or fell silent, whose part is kept back."),
		differ:   desc("rates_differ", "Shared rates of this gate's configuration that are not in force, since another gate's file says otherwise."),
		pending:  desc("rates_pending", "Shared rates that this gate was told and the group has not taken."),
		age:      desc("lease_age_seconds", "Time since the group answered last."),
		mode:     desc("mode", "1 for what the gate goes by: leased, kept, or its fallback.", "mode"),
		calls:    desc("calls_total", "Calls that the group answered."),
		failures: desc("call_failures_total", "Calls that the group did not answer."),
		seconds:  desc("call_seconds", "How long the last call took that was answered."),
	}
}

// Describe implements [prometheus.Collector].
func (c *fleetCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.share, c.gates, c.age, c.mode, c.calls, c.failures, c.seconds, c.known, c.differ, c.pending} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *fleetCollector) Collect(ch chan<- prometheus.Metric) {
	g := c.fleet.current()
	if g == nil {
		return
	}
	s := g.Brief()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...) //nolint:promlinter // as in the tuner's runner's
	}
	for _, sum := range g.Sums() {
		gauge(c.share, sum.Share, sum.Label)
	}
	gauge(c.gates, float64(s.Gates))
	gauge(c.known, float64(s.Known))
	gauge(c.differ, float64(len(byFile(s.Differs))))
	gauge(c.pending, float64(len(s.Pending)))
	gauge(c.age, s.AgeSeconds)
	gauge(c.seconds, s.CallMS/1000)
	for _, m := range fleet.Modes() {
		in := 0.0
		if string(m) == s.Mode {
			in = 1
		}
		gauge(c.mode, in, string(m))
	}
	ch <- prometheus.MustNewConstMetric(c.calls, prometheus.CounterValue, float64(s.Calls))       //nolint:promlinter // as in the tuner's runner's
	ch <- prometheus.MustNewConstMetric(c.failures, prometheus.CounterValue, float64(s.Failures)) //nolint:promlinter // as above
}
