package main

import (
	"slices"
)

// partition shows everything about one partition, the inner state of its
// algorithm included.
func partition() board {
	return board{
		file: "partition.json", uid: "partition", title: "admitd / Partition",
		about: "One partition: its requests, its latency, its limit, and what goes on inside the algorithm that sets it. " +
			"The partitions of clients' keys share the name default; their limits and counts are summed and they show no inner state.",
		variables: variables(ingressVariable(false), partitionVariable(false)),
		rows: []row{
			{"Now", partitionNow()},
			{"Requests", partitionRequests()},
			{"Latency and limit", partitionLimit()},
			{"Inside the algorithm", slices.Concat(partitionInside(), partitionWindow())},
		},
	}
}

func partitionNow() []panel {
	return []panel{
		{
			kind: number, title: "Limit", unit: count, w: 4, h: 4,
			about:   "Permits that may be held at once, with the algorithm that says so.",
			queries: []query{{sum("algorithm", is("admitd_concurrency_limit", part)), "{{algorithm}}"}},
		},
		{
			kind: number, title: "In flight", unit: count, w: 4, h: 4,
			about:   "Permits held at the moment of the scrape.",
			queries: []query{{sum("", is("admitd_requests_in_flight", part)), "in flight"}},
		},
		{
			kind: number, title: "Queued", unit: count, w: 4, h: 4, steps: []step{{1, "yellow"}},
			about:   "Requests that wait for a permit. Always 0 where the policy allows no queue.",
			queries: []query{{sum("", is("admitd_requests_queued", part)), "queued"}},
		},
		{
			kind: number, title: "Latency without load", unit: seconds, w: 4, h: 4,
			about:   "What the algorithm believes the backend takes when idle. Absent for fixed and aimd, which keep no base.",
			queries: []query{{most("", is("admitd_base_rtt_seconds", part)), "base"}},
		},
		{
			kind: number, title: "Goodput", unit: perSecond, w: 4, h: 4,
			about:   "Requests per second that were admitted and answered well.",
			queries: []query{{goodput("", part), "goodput"}},
		},
		{
			kind: number, title: "Refused share", unit: share, w: 4, h: 4, steps: []step{{0.01, "yellow"}, {0.1, "red"}},
			about:   "Share of the partition's requests that were refused.",
			queries: []query{{over(sum("", per("admitd_requests_rejected_total", part)), sum("", per("admitd_requests_received_total", part))), "rejected"}},
		},
	}
}

func partitionRequests() []panel {
	return []panel{
		{
			kind: series, title: "Received, admitted, given up", unit: perSecond, w: 8,
			about: "Requests per second that were decided, that got a permit, whose caller left while waiting, and whose caller left while the backend worked for it. The gap between the first two is what was refused.",
			queries: []query{
				{sum("", per("admitd_requests_received_total", part)), "received"},
				{sum("", per("admitd_requests_admitted_total", part)), "admitted"},
				{sum("", per("admitd_requests_gave_up_total", part)), "gave up waiting"},
				{sum("", per("admitd_requests_abandoned_total", part)), "left work behind"},
			},
		},
		{
			kind: stacked, title: "Refused by reason", unit: perSecond, w: 8,
			about:   "Refusals per second, by which limit refused.",
			queries: []query{{sum("reason", per("admitd_requests_rejected_total", part)), "{{reason}}"}},
		},
		{
			kind: stacked, title: "Permits ended by outcome", unit: perSecond, w: 8,
			about:   "How the work of admitted requests went: success and dropped are samples for the limit, ignored is none.",
			queries: []query{{sum("outcome", per("admitd_permits_ended_total", part)), "{{outcome}}"}},
		},
		{
			kind: series, title: "Tokens of the partition's bucket", unit: count, w: 12, negative: true,
			about: "Tokens left in the partition's own bucket and requests that wait out a debt to it. Absent where the partition has no rate.",
			queries: []query{
				{most("bucket", is("admitd_bucket_tokens", gate+`,bucket=~"partition/$partition"`)), "tokens"},
				{most("bucket", is("admitd_bucket_waiting", gate+`,bucket=~"partition/$partition"`)), "waiting"},
			},
		},
		{
			kind: series, title: "Would be refused in shadow mode, by reason", unit: perSecond, w: 12,
			about:   "Requests that passed because the ingress only watches. Absent in other modes.",
			queries: []query{{sum("reason", per("admitd_requests_would_reject_total", part)), "{{reason}}"}},
		},
	}
}

func partitionLimit() []panel {
	return []panel{
		{
			kind: series, title: "Latency", unit: seconds, w: 12,
			about: "Time permits were held, against the latency without load and the latency of the algorithm's last sample window.",
			queries: []query{
				{quantile(0.5, "", part), "p50"},
				{quantile(0.9, "", part), "p90"},
				{quantile(0.99, "", part), "p99"},
				{most("", is("admitd_base_rtt_seconds", part)), "no load"},
				{most("", state("sample_rtt_seconds")), "last window"},
			},
		},
		{
			kind: series, title: "Limit, in flight and queued", unit: count, w: 12,
			about: "The limit in force against what is held and waits. In flight pressed against the limit: the limit is what refuses.",
			queries: []query{
				{sum("", is("admitd_concurrency_limit", part)), "limit"},
				{sum("", is("admitd_requests_in_flight", part)), "in flight"},
				{sum("", is("admitd_requests_queued", part)), "queued"},
			},
		},
		{
			kind: heat, title: "Latency distribution", unit: seconds, w: 24,
			about:   "How many permits were held how long. Two bands mean two kinds of requests; a band that climbs means a queue behind the gate.",
			queries: []query{{sum("le", "increase(admitd_request_duration_seconds_bucket{"+part+"}[$__rate_interval])"), "{{le}}"}},
		},
	}
}

func partitionInside() []panel {
	return []panel{
		{
			kind: series, title: "Estimate and what bounds it", unit: count, w: 12,
			about: "estimate: what the formula says. enforced: what is in force. ceiling: holds a formula down that does not heed drops. floor: holds aimd up when its target cannot be met. The last two are 0 while they do nothing.",
			queries: []query{
				{most("", state("limit")), "estimate"},
				{most("", state("enforced_limit")), "enforced"},
				{most("", state("ceiling")), "ceiling"},
				{most("", state("floor")), "floor"},
			},
		},
		{
			kind: series, title: "Gradient", unit: factor, w: 6,
			about:   "gradient and gradient2 only: expected over observed latency, at most 1. Below 1 the limit shrinks.",
			queries: []query{{"min(" + state("gradient") + ")", "gradient"}},
		},
		{
			kind: series, title: "Estimated queue", unit: count, w: 6,
			about:   "vegas only: requests that the algorithm believes wait inside the backend. Between alpha and beta the limit rests.",
			queries: []query{{most("", state("queue")), "queue"}},
		},
		{
			kind: series, title: "Target latency", unit: seconds, w: 6,
			about: "aimd only: requestTimeout, against the latency of the last window. Above it the limit is cut.",
			queries: []query{
				{most("", state("target_rtt_seconds")), "target"},
				{most("", state("sample_rtt_seconds")), "last window"},
			},
		},
	}
}

// partitionWindow shows the samples that the algorithm sees.
func partitionWindow() []panel {
	return []panel{
		{
			kind: series, title: "Last sample window", unit: count, w: 6,
			about: "Latencies in the last window and the most requests in flight during it. Few samples or little in flight: the limit does not move.",
			queries: []query{
				{most("", state("sample_count")), "samples"},
				{most("", state("sample_peak_in_flight")), "peak in flight"},
			},
		},
		{
			kind: series, title: "Bad share of the last window", unit: share, w: 6,
			about:   "Share of the last window's samples that were dropped or, for aimd, over the target.",
			queries: []query{{most("", state("sample_bad_fraction")), "bad"}},
		},
		{
			kind: series, title: "Windows and lost samples", unit: rate, w: 6,
			about: "Sample windows closed per second, and latencies per second that taught nothing: from before a change (stale) or beyond what makes sense (discarded).",
			queries: []query{
				{sum("", per("admitd_algorithm_events_total", part+`,event="windows"`)), "windows"},
				{sum("", per("admitd_algorithm_events_total", part+`,event="stale_samples"`)), "stale"},
				{sum("", per("admitd_algorithm_events_total", part+`,event="discarded_samples"`)), "discarded"},
			},
		},
		{
			kind: series, title: "Base measured anew, and faults", unit: count, w: 12,
			about: "How often the base was found to be out of date and measured anew, and how often the formula failed and was put aside. Since the start.",
			queries: []query{
				{most("", is("admitd_algorithm_events_total", part+`,event="remeasured"`)), "measured anew"},
				{most("", is("admitd_algorithm_events_total", part+`,event="faults"`)), "faults"},
			},
		},
		{
			kind: series, title: "Latencies that no limit learned from", unit: rate, w: 12,
			about:   "By reason: clock (not trusted), epoch (the clock changed meanwhile). Absent while there are none.",
			queries: []query{{sum("reason", per("admitd_latency_samples_discarded_total", part)), "{{reason}}"}},
		},
	}
}
