package daemon

import (
	"net/netip"

	"github.com/admitd/admitd/config"
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
