package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/limiter"
)

// maxOverrides bounds the overrides of one ingress.
const maxOverrides = 1000

// overrides are settings of single keys that hold for a time, over whatever the
// configuration says. A reload keeps them. Those of one key lie over each other: what
// a later one does not say an earlier one does, and the configuration what none does.
// It implements [admin.Overrides].
type overrides struct {
	settings *settings

	mu   sync.Mutex                             // guards the fields below; never held across a wait
	last int                                    // id given last
	all  map[string]map[string][]admin.Override // by ingress and key, the oldest first; replaced as a whole
}

// Override implements [admin.Overrides].
func (o *overrides) Override(ctx context.Context, ingress, key string, c admin.OverrideChange) (admin.Override, error) {
	fs := o.settings.fronts
	fs.change.Lock()
	defer fs.change.Unlock()
	in := fs.ingress(ingress)
	if in == nil {
		return admin.Override{}, admin.ErrUnknownIngress
	}
	if shown := fs.protocols[in.Protocol].Shown; shown != nil && key != limiter.DefaultPartition && key != limiter.OverflowPartition {
		if _, named := formOf(in, key); named < 0 {
			key = shown(in, key)
		}
	}
	if most := fs.protocols[in.Protocol].MaxKey; most > 0 && len(key) > most {
		return admin.Override{}, &admin.Invalid{Problems: []string{fmt.Sprintf("overrides: a key of more than %d bytes is known by its hash, as the status shows it (%d)", most, len(key))}}
	}
	switch {
	case in.Mode == "off":
		return admin.Override{}, &admin.Invalid{Problems: []string{"overrides: the ingress decides nothing while its mode is off: change mode first"}}
	case in.Mode == "shadow" && c.Block:
		return admin.Override{}, &admin.Invalid{Problems: []string{"overrides: the ingress refuses nobody while its mode is shadow, so nothing can be blocked: change mode to enforce first"}}
	}
	if c.Check != nil {
		if err := c.Check(); err != nil {
			return admin.Override{}, err
		}
		c.Check = nil
	}
	o.mu.Lock()
	o.last++
	next := admin.Override{ID: strconv.Itoa(o.last), Ingress: ingress, Key: key, OverrideChange: c, At: time.Now().UTC()}
	if c.For > 0 {
		next.Until = next.At.Add(c.For)
	}
	before := o.all[ingress][key]
	after := append(slices.DeleteFunc(slices.Clone(before), func(old admin.Override) bool { return next.Covers(&old) }), next)
	if o.countLocked(ingress)+len(after)-len(before) > maxOverrides {
		o.mu.Unlock()
		return admin.Override{}, &admin.Invalid{Problems: []string{fmt.Sprintf("overrides: there are %d already", maxOverrides)}}
	}
	o.putLocked(ingress, key, after)
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
		slog.String("before", describe(before)), slog.String("after", describe(after)), slog.String("by", c.By))
	return next, nil
}

// putLocked replaces the overrides of a key.
func (o *overrides) putLocked(ingress, key string, next []admin.Override) {
	of := maps.Clone(o.all[ingress])
	if of == nil {
		of = map[string][]admin.Override{}
	}
	if of[key] = next; len(next) == 0 {
		delete(of, key)
	}
	if o.all == nil {
		o.all = map[string]map[string][]admin.Override{}
	}
	o.all[ingress] = of
}

// countLocked returns how many there are of an ingress.
func (o *overrides) countLocked(ingress string) (n int) {
	for _, of := range o.all[ingress] {
		n += len(of)
	}
	return n
}

// describe words what the overrides of a key come to, in one line.
func describe(of []admin.Override) string {
	if len(of) == 0 {
		return "none"
	}
	sum := admin.Override{OverrideChange: admin.Merged(of)}
	sum.Until = of[len(of)-1].Until
	return sum.String()
}

// Overrides implements [admin.Overrides].
func (o *overrides) Overrides(ingress string) ([]admin.Override, error) {
	if o.settings.fronts.ingress(ingress) == nil {
		return nil, admin.ErrUnknownIngress
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	all := slices.Concat(slices.Collect(maps.Values(o.all[ingress]))...)
	slices.SortFunc(all, func(a, b admin.Override) int { return a.At.Compare(b.At) })
	return all, nil
}

// has reports whether the rate of a key is an override's.
func (o *overrides) has(ingress, key string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.all[ingress][key]) > 0
}

// count returns how many there are.
func (o *overrides) count() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for ingress := range o.all {
		n += o.countLocked(ingress)
	}
	return n
}

// Undo implements [admin.Overrides].
func (o *overrides) Undo(ctx context.Context, ingress, id, by string) (admin.Override, error) {
	fs := o.settings.fronts
	fs.change.Lock()
	defer fs.change.Unlock()
	o.mu.Lock()
	var before, after []admin.Override
	var old admin.Override
	for key, of := range o.all[ingress] {
		if i := slices.IndexFunc(of, func(v admin.Override) bool { return v.ID == id }); i >= 0 {
			old, before, after = of[i], of, slices.Delete(slices.Clone(of), i, i+1)
			o.putLocked(ingress, key, after)
			break
		}
	}
	o.mu.Unlock()
	switch {
	case before != nil: // perhaps of an ingress that is away, and would come back with it
	case fs.ingress(ingress) == nil:
		return admin.Override{}, admin.ErrUnknownIngress
	default:
		return admin.Override{}, admin.ErrUnknownOverride
	}
	if err := fs.apply(ctx, o.settings.running(), false); err != nil {
		o.mu.Lock()
		o.putLocked(ingress, old.Key, before) // it is in force still
		o.mu.Unlock()
		return admin.Override{}, notApplied(err)
	}
	o.settings.log.Info("override undone", slog.String("id", id), slog.String("ingress", ingress), slog.String("key", old.Key),
		slog.String("before", describe(before)), slog.String("after", describe(after)), slog.String("by", by))
	return old, nil
}

// expireAgain is how soon an override is undone that could not be when its time
// was over.
const expireAgain = 5 * time.Second

// expire undoes an override whose time is over, unless it was replaced. What keeps
// it from that will be over too.
func (o *overrides) expire(ctx context.Context, ingress, id string) {
	_, err := o.Undo(ctx, ingress, id, "its time is over")
	if err == nil || errors.Is(err, admin.ErrUnknownIngress) || errors.Is(err, admin.ErrUnknownOverride) || errors.Is(err, admin.ErrDraining) {
		return
	}
	o.settings.log.Warn("override stays beyond its time", slog.String("id", id), slog.String("ingress", ingress), slog.Any("error", err))
	time.AfterFunc(expireAgain, func() { o.expire(ctx, ingress, id) })
}

// put lays the overrides of an ingress over its policy. A key that a named partition
// serves exactly, or that is its name, is that partition's; one that the prefix of a
// named partition matches begins with its form.
func (o *overrides) put(in *config.Ingress, p *limiter.Policy, build func(form *config.Partition) (limiter.PartitionPolicy, error)) error {
	o.mu.Lock()
	all := o.all[in.Name]
	o.mu.Unlock()
	for key, of := range all {
		form, named := formOf(in, key)
		v := admin.Merged(of)
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
		if named < 0 {
			if p.Keys == nil {
				p.Keys = map[string]*limiter.PartitionPolicy{}
			}
			p.Keys[key] = &policy
			continue
		}
		policy.Name, policy.Match = p.Named[named].Name, p.Named[named].Match
		p.Named[named] = policy
	}
	return nil
}

// formOf returns the form that a key's partition has by the configuration. named is
// the place of the named partition that the key alone stands for, or < 0.
func formOf(in *config.Ingress, key string) (form config.Partition, named int) {
	longest := -1
	for i := range in.Partitions.Named {
		n := &in.Partitions.Named[i]
		match := cmp.Or(n.Match, n.Name)
		prefix, isPrefix := strings.CutSuffix(match, "*")
		if n.Name == key || match == key && !isPrefix {
			return n.Form(), i
		}
		if isPrefix && strings.HasPrefix(key, prefix) && (longest < 0 || len(prefix) > len(cmp.Or(in.Partitions.Named[longest].Match, in.Partitions.Named[longest].Name))-1) {
			longest = i
		}
	}
	if longest >= 0 && key != limiter.DefaultPartition && key != limiter.OverflowPartition {
		return in.Partitions.Named[longest].Form(), -1
	}
	return in.Partitions.Default, -1
}

// rates calls yield with the overrides of an ingress that change a shared rate:
// the partition, as [limiter.Gate.Shared] names it, the rate, its depth in seconds
// and how long it holds, 0 = until it is undone.
func (o *overrides) rates(in *config.Ingress, yield func(partition string, rate, burstSeconds float64, left time.Duration)) {
	o.mu.Lock()
	all := o.all[in.Name]
	o.mu.Unlock()
	for key, of := range all {
		form, named := formOf(in, key)
		partition := "~" + key
		switch {
		case named >= 0:
			partition = "=" + in.Partitions.Named[named].Name
		case key == limiter.DefaultPartition, key == limiter.OverflowPartition:
			partition = "=" + key
		}
		v := admin.Merged(of)
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
		for i := range of { // the end of the last that says anything of it
			switch says := of[i].Rate != nil || of[i].Block || of[i].BurstSeconds != nil; {
			case !says:
			case of[i].Until.IsZero():
				left = 0
			default:
				left = max(time.Until(of[i].Until), time.Millisecond)
			}
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
		ch <- prometheus.MustNewConstMetric(overrideCount, prometheus.GaugeValue, float64(o.countLocked(name)), name)
	}
}
