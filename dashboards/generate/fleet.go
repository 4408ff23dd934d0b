package main

// fleet answers whether gates that share rates do so, and who has which part.
func fleet() board {
	return board{
		file: "fleet.json", uid: "fleet", title: "admitd / Fleet",
		about:     "Gates that share rates and limits: are all leased, who has which part, and how far away is the group?",
		variables: variables(),
		rows: []row{
			{"The group", members()},
			{"Shares", shares()},
		},
	}
}

func members() []panel {
	return []panel{
		{
			kind: number, title: "Gates", unit: count, w: 4, h: 5,
			about:   "Gates of the group, as the one says that sees the most.",
			queries: []query{{"max(" + is("admitd_fleet_gates", process) + ")", "gates"}},
		},
		{
			kind: number, title: "Seen differently", unit: count, w: 4, h: 5, steps: []step{{1, "yellow"}},
			about:   "By how many gates the instances differ in how many there are. Above 0 for longer: some are cut off, or in another group.",
			queries: []query{{"max(" + is("admitd_fleet_gates", process) + ") - min(" + is("admitd_fleet_gates", process) + ")", "difference"}},
		},
		{
			kind: states, title: "Not leased", unit: count, w: 16, h: 5, words: []word{{0, "no", "green"}, {1, "yes", "red"}},
			about:   "Red while an instance hears nothing of the group and goes by its last share (kept) or its fallback.",
			queries: []query{{most("instance, mode", is("admitd_fleet_mode", process+`,mode!="leased"`)), "{{instance}} {{mode}}"}},
		},
		{
			kind: series, title: "Age of the lease", unit: seconds, w: 12,
			about:   "Time since the group answered each instance last. It saws between 0 and the interval; beyond the lease the fallback begins.",
			queries: []query{{most("instance", is("admitd_fleet_lease_age_seconds", process)), "{{instance}}"}},
		},
		{
			kind: series, title: "Time of a call", unit: seconds, w: 12,
			about:   "How long the last answered call of each instance took. No request waits for it; above half of the interval it counts as failed.",
			queries: []query{{most("instance", is("admitd_fleet_call_seconds", process)), "{{instance}}"}},
		},
		{
			kind: stacked, title: "Calls", unit: rate, w: 24,
			about: "Calls per second over all instances, answered or not. They follow the gates, the quotas and the interval, not the requests.",
			queries: []query{
				{sum("", per("admitd_fleet_calls_total", process)), "answered"},
				{sum("", per("admitd_fleet_call_failures_total", process)), "failed"},
			},
		},
	}
}

func shares() []panel {
	return []panel{
		{
			kind: series, title: "Shares by quota", unit: perSecond, w: 12,
			about:   "What all instances were lent of each shared rate, tokens per second. While the rate is asked for the sum is the rate.",
			queries: []query{{sum("quota", is("admitd_fleet_share", process)), "{{quota}}"}},
		},
		{
			kind: series, title: "Shares by gate", unit: perSecond, w: 12,
			about:   "What each instance was lent, over all quotas. They follow the load of each.",
			queries: []query{{sum("instance", is("admitd_fleet_share", process)), "{{instance}}"}},
		},
		{
			kind: stacked, title: "Refused by what is shared", unit: perSecond, w: 24,
			about:   "Requests per second that a shared rate or limit refused, by ingress and reason.",
			queries: []query{{sum("ingress, reason", per("admitd_requests_rejected_total", process+`,limit="fleet"`)), "{{ingress}} {{reason}}"}},
		},
	}
}
