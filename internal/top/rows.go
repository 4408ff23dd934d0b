package top

import (
	"cmp"
	"strings"

	"github.com/admitd/admitd/status"
)

// rates are counts per second.
type rates struct {
	received, admitted, rejected, failed float64

	rtt    float64 // milliseconds, mean of what was answered; 0 = nothing was
	reason string  // of most rejections, "" = none
}

// since returns the rates between two readings, seconds apart; none when the
// counts went back, as after a restart.
func since(c, old *status.Counts, seconds float64) rates {
	if old == nil || seconds <= 0 || c.Received < old.Received {
		return rates{}
	}
	r := rates{
		received: float64(c.Received-old.Received) / seconds,
		admitted: float64(c.Admitted-min(c.Admitted, old.Admitted)) / seconds,
		failed:   float64(c.Failed-min(c.Failed, old.Failed)) / seconds,
	}
	if n := c.Succeeded - min(c.Succeeded, old.Succeeded); n > 0 && c.BusyMS > old.BusyMS {
		r.rtt = (c.BusyMS - old.BusyMS) / float64(n)
	}
	most := 0.0
	for reason, n := range c.Rejected {
		rate := float64(n-min(n, old.Rejected[reason])) / seconds
		r.rejected += rate
		if rate > most || rate == most && rate > 0 && string(reason) < r.reason {
			most, r.reason = rate, string(reason)
		}
	}
	return r
}

// row is one partition.
type row struct {
	ingress string
	rates

	*status.Partition
}

func (r *row) use() float64 { return float64(r.InFlight) / float64(max(r.Limit, 1)) }

// Order is an order of the rows.
type Order struct {
	key     string
	name    string
	compare func(a, b *row) int // downwards, but for names
}

// orders returns every order, the first one first.
func orders() []Order {
	by := func(value func(r *row) float64) func(a, b *row) int {
		return func(a, b *row) int { return cmp.Compare(value(b), value(a)) }
	}
	return []Order{
		{"r", "refused", by(func(r *row) float64 { return r.rejected })},
		{"f", "failed", by(func(r *row) float64 { return r.failed })},
		{"a", "admitted", by(func(r *row) float64 { return r.admitted })},
		{"u", "use", by((*row).use)},
		{"i", "inflight", by(func(r *row) float64 { return float64(r.InFlight) })},
		{"l", "limit", by(func(r *row) float64 { return float64(r.Limit) })},
		{"w", "queued", by(func(r *row) float64 { return float64(r.Queued) })},
		{"t", "rtt", by(func(r *row) float64 { return r.rtt })},
		{"n", "name", func(a, b *row) int { return cmp.Compare(a.Name, b.Name) }},
	}
}

// OrderOf returns the order of that name.
func OrderOf(name string) (Order, bool) {
	if name == "rejected" { // as it was called
		name = "refused"
	}
	for _, o := range orders() {
		if o.name == name {
			return o, true
		}
	}
	return Order{}, false
}

// OrderNames lists the orders, the first one first.
func OrderNames() []string {
	var names []string
	for _, o := range orders() {
		names = append(names, o.name)
	}
	return names
}

// Keys describes the keys that choose an order.
func Keys() string {
	var keys []string
	for _, o := range orders() {
		keys = append(keys, o.key+" "+o.name)
	}
	return strings.Join(keys, ", ")
}
