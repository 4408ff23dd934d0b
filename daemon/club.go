package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/config"
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
	if r.TLS, err = fleetTLS(&f.Redis.TLS); err != nil {
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

// share marks the rates of a policy that the configuration shares.
func (fs *fronts) share(in *config.Ingress, p *limiter.Policy) {
	gates := max(fs.sharers, 1)
	if in.Requests.Shared && p.Rate.PerSecond > 0 {
		p.Rate.Sharers = gates
	}
	mark := func(shared bool, r *limiter.Rate) {
		if shared && r.PerSecond > 0 {
			r.Sharers = gates
		}
	}
	mark(in.Partitions.Default.Shared, &p.Default.Rate)
	for i := range in.Partitions.Named {
		mark(in.Partitions.Named[i].Shared, &p.Named[i].Rate)
	}
	for _, k := range p.Keys {
		mark(in.Partitions.Default.Shared, &k.Rate)
	}
	plain := p.Default.Signature
	fs.pool(in, &in.Partitions.Default.Limit, &p.Default)
	for i := range in.Partitions.Named {
		fs.pool(in, &in.Partitions.Named[i].Limit, &p.Named[i])
	}
	for _, k := range p.Keys {
		if k.Signature == plain {
			fs.pool(in, &in.Partitions.Default.Limit, k)
		}
	}
}

// pool gives a partition its part of a limit that all gates share, if the
// configuration says so.
func (fs *fronts) pool(in *config.Ingress, l *config.Limit, p *limiter.PartitionPolicy) {
	if !l.Shared {
		return
	}
	s := limitSettings(in, l)
	s.Gates = 1
	fs.meet(&s)
	p.Signature += " shared"
	p.NewLimit = func() limiter.Limit {
		return pool.New(pool.Options{Gates: fs.sharers, Make: func(initial, gates, least int) pool.Algorithm {
			return mustLimit(partOf(s, initial, gates, least))
		}})
	}
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

// fleetTLS returns how Redis is dialled; nil = plain TCP. The gate's own
// certificate is read at every connect.
func fleetTLS(t *config.FleetTLS) (*tls.Config, error) {
	if !t.Enabled {
		return nil, nil //nolint:nilnil // nil means no TLS, as documented
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: t.ServerName}
	var err error
	if t.CAFile != "" {
		if cfg.RootCAs, err = readPool(t.CAFile); err != nil {
			return nil, err
		}
	}
	if t.CertFile == "" {
		return cfg, nil
	}
	own := func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("certificate: %w", err)
		}
		return &cert, nil
	}
	if _, err = own(nil); err != nil {
		return nil, err
	}
	cfg.GetClientCertificate = own
	return cfg, nil
}
