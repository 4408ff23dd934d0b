package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/limiter"
)

// maxOverrides bounds the overrides of one ingress.
const maxOverrides = 1000

// overrides are settings of single keys that hold for a time, over whatever the
// configuration says. A reload keeps them. It implements [admin.Overrides].
type overrides struct {
	settings *settings

	mu   sync.Mutex                           // guards the fields below; never held across a wait
	last int                                  // id given last
	all  map[string]map[string]admin.Override // by ingress and key
}

// Override implements [admin.Overrides].
func (o *overrides) Override(ctx context.Context, ingress, key string, c admin.OverrideChange) (admin.Override, error) {
	fs := o.settings.fronts
	fs.change.Lock()
	defer fs.change.Unlock()
	if fs.ingress(ingress) == nil {
		return admin.Override{}, admin.ErrUnknownIngress
	}
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return admin.Override{}, err
		}
		c.Check = nil
	}
	o.mu.Lock()
	if len(o.all[ingress]) >= maxOverrides && o.all[ingress][key].ID == "" {
		o.mu.Unlock()
		return admin.Override{}, &admin.Invalid{Problems: []string{fmt.Sprintf("overrides: there are %d already", maxOverrides)}}
	}
	o.last++
	next := admin.Override{ID: strconv.Itoa(o.last), Ingress: ingress, Key: key, OverrideChange: c, At: time.Now().UTC()}
	if c.For > 0 {
		next.Until = next.At.Add(c.For)
	}
	before := o.putLocked(ingress, key, &next)
	o.mu.Unlock()
	if err := fs.apply(ctx, o.settings.running(), false); err != nil {
		o.mu.Lock()
		o.putLocked(ingress, key, before)
		o.mu.Unlock()
		return admin.Override{}, notApplied(err)
	}
	if c.For > 0 {
		late := context.WithoutCancel(ctx) // the caller will have gone
		time.AfterFunc(c.For, func() { o.expire(late, ingress, next.ID) })
	}
	o.settings.log.Info("override set", slog.String("id", next.ID), slog.String("ingress", ingress), slog.String("key", key),
		slog.String("before", describe(before)), slog.String("after", describe(&next)), slog.String("by", c.By))
	return next, nil
}

// putLocked replaces the override of a key, nil = removes it, and returns the
// one before.
func (o *overrides) putLocked(ingress, key string, next *admin.Override) (before *admin.Override) {
	if old, was := o.all[ingress][key]; was {
		before = &old
	}
	if next == nil {
		delete(o.all[ingress], key)
		return before
	}
	if o.all == nil {
		o.all = map[string]map[string]admin.Override{}
	}
	if o.all[ingress] == nil {
		o.all[ingress] = map[string]admin.Override{}
	}
	o.all[ingress][key] = *next
	return before
}

// describe words an override in one line.
func describe(o *admin.Override) string {
	if o == nil {
		return "none"
	}
	return o.String()
}

// Overrides implements [admin.Overrides].
func (o *overrides) Overrides(ingress string) ([]admin.Override, error) {
	if o.settings.fronts.ingress(ingress) == nil {
		return nil, admin.ErrUnknownIngress
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.SortedFunc(maps.Values(o.all[ingress]), func(a, b admin.Override) int { return a.At.Compare(b.At) }), nil
}

// has reports whether a key has an override.
func (o *overrides) has(ingress, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, is := o.all[ingress][key]
	return is
}

// count returns how many there are.
func (o *overrides) count() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, of := range o.all {
		n += len(of)
	}
	return n
}

// Undo implements [admin.Overrides].
func (o *overrides) Undo(ctx context.Context, ingress, id, by string) (admin.Override, error) {
	fs := o.settings.fronts
	fs.change.Lock()
	defer fs.change.Unlock()
	o.mu.Lock()
	var old *admin.Override
	for key, v := range o.all[ingress] {
		if v.ID == id {
			old = o.putLocked(ingress, key, nil)
		}
	}
	o.mu.Unlock()
	switch {
	case old != nil: // perhaps of an ingress that is away, and would come back with it
	case fs.ingress(ingress) == nil:
		return admin.Override{}, admin.ErrUnknownIngress
	default:
		return admin.Override{}, admin.ErrUnknownOverride
	}
	if err := fs.apply(ctx, o.settings.running(), false); err != nil {
		o.mu.Lock()
		o.putLocked(ingress, old.Key, old) // it is in force still
		o.mu.Unlock()
		return admin.Override{}, notApplied(err)
	}
	o.settings.log.Info("override undone", slog.String("id", id), slog.String("ingress", ingress), slog.String("key", old.Key),
		slog.String("before", describe(old)), slog.String("after", "none"), slog.String("by", by))
	return *old, nil
}

// expireAgain is how soon an override is undone that could not be when its time
// was over.
const expireAgain = 5 * time.Second

// expire undoes an override whose time is over, unless it was replaced. What keeps
// it from that, such as a certificate that is being renewed, will be over too.
func (o *overrides) expire(ctx context.Context, ingress, id string) {
	_, err := o.Undo(ctx, ingress, id, "its time is over")
	if err == nil || errors.Is(err, admin.ErrUnknownIngress) || errors.Is(err, admin.ErrUnknownOverride) || errors.Is(err, admin.ErrDraining) {
		return
	}
	o.settings.log.Warn("override stays beyond its time", slog.String("id", id), slog.String("ingress", ingress), slog.Any("error", err))
	time.AfterFunc(expireAgain, func() { o.expire(ctx, ingress, id) })
}

// put lays the overrides of an ingress over its policy.
func (o *overrides) put(in *config.Ingress, p *limiter.Policy, build func(form *config.Partition) (limiter.PartitionPolicy, error)) error {
	o.mu.Lock()
	all := maps.Clone(o.all[in.Name])
	o.mu.Unlock()
	for key, v := range all {
		form := in.Partitions.Default
		i := slices.IndexFunc(in.Partitions.Named, func(n config.NamedPartition) bool { return n.Name == key })
		if i >= 0 {
			n := &in.Partitions.Named[i]
			form = n.Form()
		}
		if v.Rate != nil {
			form.Rate = *v.Rate
		}
		if v.BurstSeconds != nil {
			form.BurstSeconds = *v.BurstSeconds
		}
		if v.Limit != nil {
			form.Limit.Algorithm, form.Limit.Limit = "fixed", *v.Limit
		}
		policy, err := build(&form)
		if err != nil {
			return err
		}
		policy.Blocked = v.Block
		if i < 0 {
			if p.Keys == nil {
				p.Keys = map[string]*limiter.PartitionPolicy{}
			}
			p.Keys[key] = &policy
			continue
		}
		policy.Name, policy.Match = p.Named[i].Name, p.Named[i].Match
		p.Named[i] = policy
	}
	return nil
}

// rates calls yield with the overrides of an ingress that change a shared rate:
// the partition, as [limiter.Gate.Shared] names it, the rate, its depth in seconds
// and how long it holds, 0 = until it is undone.
func (o *overrides) rates(in *config.Ingress, yield func(partition string, rate, burstSeconds float64, left time.Duration)) {
	o.mu.Lock()
	all := maps.Clone(o.all[in.Name])
	o.mu.Unlock()
	for key, v := range all {
		form, partition := in.Partitions.Default, "~"+key
		if i := slices.IndexFunc(in.Partitions.Named, func(n config.NamedPartition) bool { return n.Name == key }); i >= 0 {
			form, partition = in.Partitions.Named[i].Form(), "="+key
		}
		if !form.Shared || v.Rate == nil && v.BurstSeconds == nil {
			continue
		}
		if v.Rate != nil {
			form.Rate = *v.Rate
		}
		if v.BurstSeconds != nil {
			form.BurstSeconds = *v.BurstSeconds
		}
		var left time.Duration
		if !v.Until.IsZero() {
			left = max(time.Until(v.Until), time.Millisecond)
		}
		yield(partition, form.Rate, form.BurstSeconds, left)
	}
}

// overrideCount is the metric of how many there are.
var overrideCount = prometheus.NewDesc("admitd_runtime_overrides", //nolint:gochecknoglobals // a constant
	"Overrides of single keys that are in force.", []string{"ingress"}, nil)

// Describe implements [prometheus.Collector].
func (*overrides) Describe(ch chan<- *prometheus.Desc) { ch <- overrideCount }

// Collect implements [prometheus.Collector].
func (o *overrides) Collect(ch chan<- prometheus.Metric) {
	cfg := o.settings.running()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range cfg.Ingresses {
		name := cfg.Ingresses[i].Name
		ch <- prometheus.MustNewConstMetric(overrideCount, prometheus.GaugeValue, float64(len(o.all[name])), name)
	}
}
