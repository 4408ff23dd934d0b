package daemon

import (
	"net/netip"
	"slices"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/decide"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// classesOf turns who goes first into what the gates read, nil when nobody does.
func classesOf(in *config.Ingress) *ingress.Classes {
	c := &in.Classes
	if !c.Given() {
		return nil
	}
	out := &ingress.Classes{By: c.By, Default: labels.ParseClass(c.Default)}
	for _, who := range c.Trust {
		if p, err := netip.ParsePrefix(who); err == nil {
			out.Trust.Clients = append(out.Trust.Clients, p.Masked())
		} else if a, err := netip.ParseAddr(who); err == nil {
			out.Trust.Clients = append(out.Trust.Clients, netip.PrefixFrom(a, a.BitLen()))
		} else {
			out.Trust.Names = append(out.Trust.Names, who)
		}
	}
	for i := range c.Rules {
		r := &c.Rules[i]
		out.Rules = append(out.Rules, ingress.ClassRule{
			Operations: r.Operations, Applications: r.Applications, Users: r.Users, Partitions: r.Partitions,
			Class: labels.ParseClass(r.Class),
		})
	}
	return out
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

// setClass gives the request of who asks for a decision its class: the one it
// names, since who may ask may also say what a request costs, or that of the
// ingress's rules.
func setClass(in *config.Ingress, a *decide.Ask, req *limiter.Request) {
	classes := classesOf(in)
	if classes == nil || a.Class == labels.Unclassed && a.HTTP != nil { // then it was identified
		return
	}
	req.Class = a.Class
	if a.Class == labels.Unclassed {
		req.Class, _ = classes.Of(&ingress.Claimant{Key: req.Key, Operation: func(rule int) bool {
			return slices.Contains(classes.Rules[rule].Operations, a.Operation)
		}})
	}
	req.Exempt = req.Exempt || req.Class == labels.ExemptClass
}

// shapesOf returns how many shapes the gate learns, 0 = none.
func shapesOf(in *config.Ingress) int {
	if !in.Cost.Shapes.Learn {
		return 0
	}
	return in.Cost.Shapes.Max
}
