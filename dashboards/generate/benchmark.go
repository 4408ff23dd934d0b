package main

import (
	"strings"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// side is one of the two columns of the benchmark board.
type side struct{ letter, name string }

func sides() [2]side { return [2]side{{"a", "low load"}, {"b", "high load"}} }

// benchmark puts two runs beside each other: low load and high load of one
// partition, or one load on two partitions with different algorithms.
func benchmark() board {
	b := board{
		file: "benchmark.json", uid: "benchmark", title: "admitd / Benchmark",
		about: "Two runs side by side, for tuning. Run a benchmark with low load, then with high load; set A to the time of the first (offset) and B to the second. " +
			"Or send one load to two partitions with different limits and choose one on each side. A small limit keeps latency small and refuses more; a large one refuses less and lets latency grow.",
		variables: variables(),
	}
	for _, s := range sides() {
		b.variables = append(b.variables, s.variables()...)
	}
	a, z := sides()[0], sides()[1]
	b.rows = []row{
		{"Over the whole time range", append(a.totals(), z.totals()...)},
		{"Run A (low load) on the left, run B (high load) on the right", interleave(a.lines(), z.lines())},
	}
	return b
}

// interleave sets the panels of two columns side by side.
func interleave(a, b []panel) (out []panel) {
	for i := range a {
		out = append(out, a[i], b[i])
	}
	return out
}

// variables chooses what one side shows and how far back.
func (s side) variables() []cog.Builder[dashboard.VariableModel] {
	upper := strings.ToUpper(s.letter)
	return []cog.Builder[dashboard.VariableModel]{
		choice("ingress_"+s.letter, upper+" ingress", `label_values(admitd_requests_exempted_total{`+process+`}, ingress)`, false).
			Description("Ingress of run " + upper + "."),
		choice("partition_"+s.letter, upper+" partition", `label_values(admitd_requests_received_total{`+process+`,ingress=~"$ingress_`+s.letter+`"}, partition)`, false).
			Description("Partition of run " + upper + "."),
		dashboard.NewCustomVariableBuilder("offset_" + s.letter).Label(upper + " offset").
			// Not 0s: Prometheus 2 takes no offset of zero.
			Description("How long before the time range run " + upper + " took place.").
			Values(dashboard.StringOrMap{String: new("now : 1s,5m,10m,15m,20m,30m,1h,2h,6h,12h,1d,2d,7d")}).
			AllowCustomValue(true).
			Current(dashboard.VariableOption{
				Selected: new(true),
				Text:     dashboard.StringOrArrayOfString{String: new("now")},
				Value:    dashboard.StringOrArrayOfString{String: new("1s")},
			}),
	}
}

// of selects a metric of this side.
func (s side) of(metric, more string) string {
	sel := process + `,ingress=~"$ingress_` + s.letter + `",partition=~"$partition_` + s.letter + `"`
	if more != "" {
		sel += "," + more
	}
	return is(metric, sel)
}

// now selects it at the side's time.
func (s side) now(metric, more string) string {
	return s.of(metric, more) + " offset $offset_" + s.letter
}

// per is its increase per second at the side's time.
func (s side) per(metric, more string) string {
	return "rate(" + s.of(metric, more) + "[$__rate_interval] offset $offset_" + s.letter + ")"
}

// whole is its increase per second over the time range shown.
func (s side) whole(metric, more string) string {
	return "rate(" + s.of(metric, more) + "[$__range] offset $offset_" + s.letter + ")"
}

// totals are the figures to compare runs by.
func (s side) totals() []panel {
	run := " of run " + strings.ToUpper(s.letter)
	bucket := sum("le", s.whole("admitd_request_duration_seconds_bucket", `outcome="success"`))
	return []panel{
		{
			kind: number, title: "Goodput" + run, unit: perSecond, w: 3, h: 4,
			about:   "Requests answered well per second, over the whole time range (" + s.name + ").",
			queries: []query{{sum("", s.whole("admitd_permits_ended_total", `outcome="success"`)) + " - " + sum("", s.whole("admitd_requests_unheard_total", "")), "goodput"}},
		},
		{
			kind: number, title: "Refused share" + run, unit: share, w: 3, h: 4,
			about:   "Share of requests refused, over the whole time range (" + s.name + ").",
			queries: []query{{over(sum("", s.whole("admitd_requests_rejected_total", "")), sum("", s.whole("admitd_requests_received_total", ""))), "rejected"}},
		},
		{
			kind: number, title: "p50" + run, unit: seconds, w: 3, h: 4,
			about:   "Median time that requests which were answered well held their permits, over the whole time range (" + s.name + ").",
			queries: []query{{"histogram_quantile(0.5, " + bucket + ")", "p50"}},
		},
		{
			kind: number, title: "p99" + run, unit: seconds, w: 3, h: 4,
			about:   "99 of 100 requests that were answered well held their permits at most this long, over the whole time range (" + s.name + ").",
			queries: []query{{"histogram_quantile(0.99, " + bucket + ")", "p99"}},
		},
	}
}

// lines are the signals over time.
func (s side) lines() []panel {
	run := ", run " + strings.ToUpper(s.letter)
	quantile := func(q string) string {
		return "histogram_quantile(" + q + ", " + sum("le", s.per("admitd_request_duration_seconds_bucket", `outcome="success"`)) + ")"
	}
	return []panel{
		{
			kind: series, title: "Offered, good, refused" + run, unit: perSecond, w: 12,
			about: "Requests per second received, answered well, and refused.",
			queries: []query{
				{sum("", s.per("admitd_requests_received_total", "")), "offered"},
				{sum("", s.per("admitd_permits_ended_total", `outcome="success"`)) + " - " + sum("", s.per("admitd_requests_unheard_total", "")), "good"},
				{sum("", s.per("admitd_requests_rejected_total", "")), "rejected"},
			},
		},
		{
			kind: stacked, title: "Refused share by reason" + run, unit: share, w: 12,
			about:   "Which limit refused, as a share of what was received.",
			queries: []query{{sum("reason", s.per("admitd_requests_rejected_total", "")) + " / scalar(" + sum("", s.per("admitd_requests_received_total", "")) + ")", "{{reason}}"}},
		},
		{
			kind: series, title: "Latency against no load" + run, unit: seconds, w: 12,
			about: "p50 and p99 of the time permits were held, against what the algorithm believes the backend takes when idle.",
			queries: []query{
				{quantile("0.5"), "p50"},
				{quantile("0.99"), "p99"},
				{most("", s.now("admitd_base_rtt_seconds", "")), "no load"},
			},
		},
		{
			kind: series, title: "Limit against in flight" + run, unit: count, w: 12,
			about: "The limit by algorithm, and permits held. Compare where the limit settles under low and high load.",
			queries: []query{
				{sum("algorithm", s.now("admitd_concurrency_limit", "")), "limit ({{algorithm}})"},
				{sum("", s.now("admitd_requests_in_flight", "")), "in flight"},
			},
		},
		{
			kind: heat, title: "Latency distribution" + run, unit: seconds, w: 12,
			about:   "How many permits were held how long.",
			queries: []query{{sum("le", "increase("+s.of("admitd_request_duration_seconds_bucket", "")+"[$__rate_interval] offset $offset_"+s.letter+")"), "{{le}}"}},
		},
	}
}
