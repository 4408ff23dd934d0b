package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"reflect"
	"sync"
	"time"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/fleet"
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
		Redis: r, Name: f.Group, Settings: c.settings(f), Now: c.clock.Now, Buckets: c.buckets, Log: c.log,
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

// buckets lists every bucket whose rate is shared, as all gates call it.
func (c *club) buckets(yield func(name, label string, b *limiter.Bucket) bool) {
	c.fronts.mu.RLock()
	running := make([]*front, 0, len(c.fronts.running))
	for _, f := range c.fronts.running {
		running = append(running, f)
	}
	c.fronts.mu.RUnlock()
	for _, f := range running {
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
