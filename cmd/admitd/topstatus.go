package main

import (
	"cmp"
	"strings"
	"time"
)

// topStatus is what top reads of GET /v1/status.
type topStatus struct {
	Version       string    `json:"version"`
	At            time.Time `json:"at"`
	UptimeSeconds float64   `json:"uptimeSeconds"`
	Draining      bool      `json:"draining"`
	Clock         struct {
		Trusted bool   `json:"trusted"`
		Detail  string `json:"detail"`
	} `json:"clock"`
	Config struct {
		LastSuccessful bool `json:"lastSuccessful"`
	} `json:"config"`
	Ingresses []topIngress `json:"ingresses"`
}

type topIngress struct {
	Name        string     `json:"name"`
	Protocol    string     `json:"protocol"`
	Mode        string     `json:"mode"`
	Fallback    bool       `json:"fallback"`
	InFlight    int        `json:"inFlight"`
	Queued      int        `json:"queued"`
	Requests    *topBucket `json:"requests"`
	Connections *struct {
		Open int64 `json:"open"`
	} `json:"connections"`
	Counts     topCounts      `json:"counts"`
	Partitions []topPartition `json:"partitions"`
}

type topBucket struct {
	Burst  float64 `json:"burst"`
	Tokens float64 `json:"tokens"`
}

type topPartition struct {
	Name      string             `json:"name"`
	Algorithm string             `json:"algorithm"`
	Limit     int                `json:"limit"`
	InFlight  int                `json:"inFlight"`
	Queued    int                `json:"queued"`
	BaseRTTMS float64            `json:"baseRTTMS"`
	Fallback  bool               `json:"fallback"`
	State     map[string]float64 `json:"state"`
	Counts    topCounts          `json:"counts"`
}

type topCounts struct {
	Received uint64            `json:"received"`
	Admitted uint64            `json:"admitted"`
	Rejected map[string]uint64 `json:"rejected"`
}

// topRates are counts per second.
type topRates struct {
	received, admitted, rejected float64
	reason                       string // of most rejections, "" = none
}

// since returns the rates between two readings, seconds apart; none when the
// counts went back, as after a restart.
func (c *topCounts) since(old *topCounts, seconds float64) topRates {
	if old == nil || seconds <= 0 || c.Received < old.Received {
		return topRates{}
	}
	r := topRates{
		received: float64(c.Received-old.Received) / seconds,
		admitted: float64(c.Admitted-min(c.Admitted, old.Admitted)) / seconds,
	}
	most := 0.0
	for reason, n := range c.Rejected {
		rate := float64(n-min(n, old.Rejected[reason])) / seconds
		r.rejected += rate
		if rate > most || rate == most && rate > 0 && reason < r.reason {
			most, r.reason = rate, reason
		}
	}
	return r
}

// topRow is one partition.
type topRow struct {
	ingress string
	topRates

	*topPartition
}

// rtt is the latency of the last window in milliseconds, 0 = unknown.
func (r *topRow) rtt() float64 { return r.State["sample_rtt_seconds"] * 1000 }

func (r *topRow) use() float64 { return float64(r.InFlight) / float64(max(r.Limit, 1)) }

// topOrder is an order of the rows.
type topOrder struct {
	key     string
	name    string
	compare func(a, b *topRow) int // downwards, but for names
}

// topOrders returns every order, the first one first.
func topOrders() []topOrder {
	by := func(value func(r *topRow) float64) func(a, b *topRow) int {
		return func(a, b *topRow) int { return cmp.Compare(value(b), value(a)) }
	}
	return []topOrder{
		{"r", "rejected", by(func(r *topRow) float64 { return r.rejected })},
		{"a", "admitted", by(func(r *topRow) float64 { return r.admitted })},
		{"u", "use", by((*topRow).use)},
		{"i", "inflight", by(func(r *topRow) float64 { return float64(r.InFlight) })},
		{"l", "limit", by(func(r *topRow) float64 { return float64(r.Limit) })},
		{"w", "queued", by(func(r *topRow) float64 { return float64(r.Queued) })},
		{"t", "rtt", by((*topRow).rtt)},
		{"n", "name", func(a, b *topRow) int { return cmp.Compare(a.Name, b.Name) }},
	}
}

func topOrderOf(name string) (topOrder, bool) {
	for _, o := range topOrders() {
		if o.name == name {
			return o, true
		}
	}
	return topOrder{}, false
}

func topOrderNames() []string {
	var names []string
	for _, o := range topOrders() {
		names = append(names, o.name)
	}
	return names
}

// topKeys describes the keys that choose an order.
func topKeys() string {
	var keys []string
	for _, o := range topOrders() {
		keys = append(keys, o.key+" "+o.name)
	}
	return strings.Join(keys, ", ")
}
