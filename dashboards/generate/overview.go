package main

// overview answers in ten seconds: is the gate shedding, why, for whom, and is
// the backend well.
func overview() board {
	return board{
		file: "overview.json", uid: "overview", title: "admitd / Overview",
		about: "Is the gate shedding, why, for whom, and is the backend well? Marks show reloads, clock fallback, draining and " +
			"what the tuner changed.",
		variables: variables(ingressVariable(true)),
		rows: []row{
			{"At a glance", glance()},
			{"Why, and for whom", shedding()},
			{"Is the backend well", backend()},
			{"The gate itself", itself()},
			{"The tuner", tuning()},
		},
	}
}

func glance() []panel {
	return []panel{
		{
			kind: number, title: "Goodput", unit: perSecond, w: 4, h: 4,
			about:   "Requests per second that the backend answered well, to callers that were still there.",
			queries: []query{{goodput("", gate), "goodput"}},
		},
		{
			kind: number, title: "Refused share", unit: share, w: 4, h: 4, steps: []step{{0.01, "yellow"}, {0.1, "red"}},
			about:   "Share of the requests received that were refused before any work ran. Some is healthy under overload: the gate keeps the rest fast.",
			queries: []query{{over(sum("", per("admitd_requests_rejected_total", gate)), sum("", per("admitd_requests_received_total", gate))), "rejected"}},
		},
		{
			kind: number, title: "p99 of admitted", unit: seconds, w: 4, h: 4,
			about:   "99 of 100 requests that were answered well held their permit at most this long, the time in the backend.",
			queries: []query{{quantile(0.99, "", gate), "p99"}},
		},
		{
			kind: number, title: "Limit in use", unit: share, w: 4, h: 4, steps: []step{{0.8, "yellow"}, {0.95, "red"}},
			about:   "Permits held as a share of the limits of all partitions that were asked. Near 100 % the next request is queued or refused.",
			queries: []query{{over(sum("", is("admitd_requests_in_flight", gate)), sum("", is("admitd_permits_limit", gate))), "in use"}},
		},
		{
			kind: number, title: "Clock", unit: count, w: 4, h: 4, words: []word{{1, "trusted", "green"}, {0, "not trusted", "red"}},
			about:   "Whether every instance can trust its clock. While one cannot, its limits are fixed at their fallback.",
			queries: []query{{"min(" + is("admitd_clock_trusted", process) + ")", "clock"}},
		},
		{
			kind: number, title: "Configuration", unit: count, w: 4, h: 4, words: []word{{1, "in force", "green"}, {0, "refused", "red"}},
			about:   "Whether the configuration that every instance read last is in force. A refused one leaves the earlier one in force.",
			queries: []query{{"min(" + is("admitd_config_last_reload_successful", process) + ")", "configuration"}},
		},
	}
}

func shedding() []panel {
	received := sum("", per("admitd_requests_received_total", gate))
	return []panel{
		{
			kind: stacked, title: "What became of requests", unit: perSecond, w: 12,
			about: "Requests per second by their end: those answered well, those answered to nobody since the caller had left, admitted ones of another outcome (dropped: the backend failed or timed out; ignored: no fair sample), refused ones, those whose caller left while waiting, and those that were no valid requests.",
			queries: []query{
				{goodput("", gate), "answered"},
				{sum("", per("admitd_requests_unheard_total", gate)), "answered to nobody"},
				{sum("outcome", per("admitd_permits_ended_total", gate+`,outcome!="success"`)), "{{outcome}}"},
				{sum("", per("admitd_requests_rejected_total", gate)), "rejected"},
				{sum("", per("admitd_requests_gave_up_total", gate)), "gave up"},
				{sum("", per("admitd_requests_invalid_total", gate)), "invalid"},
			},
		},
		{
			kind: stacked, title: "Refused share by reason", unit: share, w: 12,
			about:   "Which limit refused. request_rate: a bucket was empty. concurrency_limit: too many in flight. queue_timeout: waited in vain. cost_exceeds_burst: can never pass. shed: made way for a class that matters more. draining: shutting down.",
			queries: []query{{sum("reason", per("admitd_requests_rejected_total", gate)) + " / scalar(" + received + ")", "{{reason}}"}},
		},
		{
			kind: bars, title: "Refused most", unit: perSecond, w: 12, toPartition: true,
			about:   "The ten partitions with the most refusals per second. Click one to open its board.",
			queries: []query{{"topk(10, " + sum("ingress, partition", per("admitd_requests_rejected_total", gate)) + ")", "{{ingress}} / {{partition}}"}},
		},
		{
			kind: series, title: "Would be refused in shadow mode", unit: perSecond, w: 12,
			about:   "Requests that passed because their ingress only watches, and would have been refused. Zero or absent where the mode is enforce.",
			queries: []query{{sum("ingress, reason", per("admitd_requests_would_reject_total", gate)), "{{ingress}} {{reason}}"}},
		},
	}
}

func backend() []panel {
	slow := "histogram_quantile(0.5, " + sum("ingress, partition, le", per("admitd_request_duration_seconds_bucket", gate+`,outcome="success"`)) + ")"
	return []panel{
		{
			kind: series, title: "Latency of admitted requests against no load", unit: seconds, w: 12,
			about: "p50 and p99 of the time that requests which were answered well held their permits, and the largest latency without load that a limit believes in. p50 far above it: the backend queues.",
			queries: []query{
				{quantile(0.5, "", gate), "p50"},
				{quantile(0.99, "", gate), "p99"},
				{most("", is("admitd_base_rtt_seconds", gate)), "no load"},
			},
		},
		{
			kind: series, title: "Limit against in flight", unit: count, w: 12,
			about: "Permits that may be held, are held, and are waited for, per ingress. A limit that falls while latency rises is the gate at work.",
			queries: []query{
				{sum("ingress", is("admitd_permits_limit", gate)), "{{ingress}} limit"},
				{sum("ingress", is("admitd_requests_in_flight", gate)), "{{ingress}} in flight"},
				{sum("ingress", is("admitd_requests_queued", gate)), "{{ingress}} queued"},
			},
		},
		{
			kind: series, title: "Slowdown against no load", unit: factor, w: 12,
			about:   "p50 as a multiple of the latency without load, for the ten slowest partitions. 1 is a backend at rest; above 2 requests wait for each other. Absent without traffic, and for algorithms that keep no base.",
			queries: []query{{"topk(10, " + slow + " / on (ingress, partition) (" + most("ingress, partition", is("admitd_base_rtt_seconds", gate)) + " > 0) >= 0)", "{{ingress}} / {{partition}}"}},
		},
		{
			kind: stacked, title: "Failed by cause", unit: perSecond, w: 12,
			about:   "Requests per second that were admitted and got no answer from the backend, by what it did: it could not be reached, hung up, was silent for too long, answered with nonsense.",
			queries: []query{{sum("ingress, cause", per("admitd_backend_failures_total", gate)), "{{ingress}} {{cause}}"}},
		},
		{
			kind: stacked, title: "Answers by class", unit: perSecond, w: 12,
			about:   "Answers of the backend per second, by class of status; of wire protocols, whether they were errors.",
			queries: []query{{sum("class", per("admitd_backend_responses_total", gate)), "{{class}}"}},
		},
		{
			kind: series, title: "Retries", unit: share, w: 12, steps: []step{{0.1, "yellow"}, {0.4, "red"}},
			about:   "Share of the requests that their callers have tried before, of those that say which attempt they are. Refusals and errors make load of their own where it is large.",
			queries: []query{{over(sum("ingress", per("admitd_request_attempts_total", gate+`,attempt="retry"`)), sum("ingress", per("admitd_request_attempts_total", gate))), "{{ingress}}"}},
		},
		{
			kind: series, title: "Callers that leave", unit: share, w: 12, steps: []step{{0.01, "yellow"}, {0.1, "red"}},
			about: "Share of the requests whose caller went away before it was answered: while it waited in the gate, and while the backend worked for it.",
			queries: []query{
				{over(sum("ingress", per("admitd_requests_gave_up_total", gate)), sum("ingress", per("admitd_requests_received_total", gate))), "{{ingress}} while waiting"},
				{over(sum("ingress", per("admitd_requests_abandoned_total", gate)), sum("ingress", per("admitd_requests_received_total", gate))), "{{ingress}} while the backend worked"},
			},
		},
		{
			kind: states, title: "Backends", unit: count, w: 12, words: []word{{1, "up", "green"}, {0, "down", "red"}},
			about:   "Down: it failed three times over a second or more, and not one request was answered in between. Absent until somebody asked.",
			queries: []query{{"min by (ingress, backend) (" + is("admitd_backend_up", gate) + ")", "{{ingress}} {{backend}}"}},
		},
		{
			kind: series, title: "Dropped by the backend", unit: share, w: 24, steps: []step{{0.01, "yellow"}, {0.05, "red"}},
			about: "Share of admitted requests that the backend failed or let time out. The gate's limits shrink on these.",
			queries: []query{{
				over(sum("ingress", per("admitd_permits_ended_total", gate+`,outcome="dropped"`)), sum("ingress", per("admitd_permits_ended_total", gate))), "{{ingress}}",
			}},
		},
	}
}

func tuning() []panel {
	return []panel{
		{
			kind: states, title: "What the tuner does not do", unit: count, w: 24, h: 7, words: []word{{0, "no", "green"}, {1, "yes", "red"}},
			about: "Red while a signal is not trusted, a policy is locked, a setting is left alone since a person set it, or the whole tuner holds still. Empty without a tuner.",
			queries: []query{
				{"1 - min by (signal) (" + is("admitd_tuner_signal_trusted", process) + ")", "signal {{signal}} not trusted"},
				{most("policy", is("admitd_tuner_policy_locked", process)), "policy {{policy}} locked"},
				{most("setting", is("admitd_tuner_setting_by_hand", process)), "{{setting}} set by hand"},
				{most("instance", is("admitd_tuner_frozen", process)), "{{instance}} holds still"},
			},
		},
		{
			kind: series, title: "Settings between their bounds", unit: share, w: 12, max: 1,
			about:   "Where each setting lies between min and max of the policy that decides: at 0 or 1 the bound decides, not the policy.",
			queries: []query{{most("setting", is("admitd_tuner_setting_position", process)), "{{setting}}"}},
		},
		{
			kind: series, title: "Changes, and those taken back", unit: rate, w: 12,
			about: "Settings that policies changed, and changes that were taken back by the tuner or by a person. Many of the second say that a policy works against the backend.",
			queries: []query{
				{sum("policy", per("admitd_tuner_changes_total", process)), "{{policy}} changed"},
				{sum("policy", per("admitd_tuner_reverts_total", process)), "{{policy}} taken back"},
			},
		},
	}
}

func itself() []panel {
	return []panel{
		{
			kind: states, title: "What is not as usual", unit: count, w: 24, h: 7, words: []word{{0, "no", "green"}, {1, "yes", "red"}},
			about: "Red while an instance distrusts its clock or refused its last configuration, and while an ingress limits by fallback, drains, or does not enforce.",
			queries: []query{
				{"1 - min by (instance) (" + is("admitd_clock_trusted", process) + ")", "{{instance}} clock not trusted"},
				{"1 - min by (instance) (" + is("admitd_config_last_reload_successful", process) + ")", "{{instance}} configuration refused"},
				{most("ingress", is("admitd_fallback_active", gate)), "{{ingress}} fallback"},
				{most("ingress", is("admitd_ingress_draining", gate)), "{{ingress}} draining"},
				{most("ingress", is("admitd_ingress_mode", gate+`,mode!="enforce"`)), "{{ingress}} not enforcing"},
			},
		},
		{
			kind: series, title: "Clock faults and pauses", unit: rate, w: 8,
			about: "What the clock guard found wrong, by kind, and how often the machine stood still.",
			queries: []query{
				{sum("kind", per("admitd_clock_faults_total", process)), "{{kind}}"},
				{sum("", per("admitd_clock_pauses_total", process)), "pauses"},
			},
		},
		{
			kind: series, title: "Age of the configuration in force", unit: seconds, w: 8,
			about:   "Time since each instance last put a configuration in force. Instances that differ run different configurations, or one was restarted.",
			queries: []query{{"time() - " + is("admitd_config_last_reload_success_timestamp_seconds", process), "{{instance}}"}},
		},
		{
			kind: bars, title: "Alerts", unit: count, w: 8, steps: []step{{1, "red"}},
			about:   "Alerts of rules/admitd.rules.yml that are pending or firing. Each has a page in docs/runbooks.",
			queries: []query{{`count by (alertname, alertstate) (ALERTS{alertname=~"Admitd.+"})`, "{{alertname}} {{alertstate}}"}},
		},
	}
}
