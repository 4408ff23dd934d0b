package protocol

import (
	"net/netip"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
)

// Classes turns who goes first into what the gates read, nil when nobody does.
func Classes(in *config.Ingress) *ingress.Classes {
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
