package main

// ingress shows the front of the gate: connections, buckets, protocol.
func ingress() board {
	return board{
		file: "ingress.json", uid: "ingress", title: "admitd / Ingress",
		about:     "The front of the gate: connections, buckets, protocol errors, latency and what the process itself costs.",
		variables: variables(ingressVariable(true)),
		rows: []row{
			{"Connections", ingressConnections()},
			{"Buckets and requests", ingressBuckets()},
			{"Latency", ingressLatency()},
			{"Protocols", ingressProtocols()},
			{"PostgreSQL", ingressPostgres()},
			{"Process", ingressProcess()},
		},
	}
}

func ingressConnections() []panel {
	return []panel{
		{
			kind: series, title: "Connections open", unit: count, w: 8,
			about: "Connections that are open or wait to come in, against the bound on both.",
			queries: []query{
				{sum("ingress", is("admitd_connections_open", gate)), "{{ingress}} open"},
				{sum("ingress", is("admitd_connections_waiting", gate)), "{{ingress}} waiting"},
				{sum("ingress", is("admitd_connections_max_open", gate)), "{{ingress}} bound"},
			},
		},
		{
			kind: series, title: "Connections accepted", unit: rate, w: 8,
			about:   "New connections per second. Many for few requests: clients do not keep theirs.",
			queries: []query{{sum("ingress", per("admitd_connections_accepted_total", gate)), "{{ingress}}"}},
		},
		{
			kind: stacked, title: "Connections refused", unit: rate, w: 8,
			about:   "Connections per second closed before they came in: rate, max_open, abandoned while waiting, proxy_header, tls_handshake, draining.",
			queries: []query{{sum("ingress, reason", per("admitd_connections_rejected_total", gate)), "{{ingress}} {{reason}}"}},
		},
	}
}

func ingressBuckets() []panel {
	return []panel{
		{
			kind: series, title: "Tokens", unit: count, w: 8, negative: true,
			about:   "Tokens left in every bucket. At 0 the bucket refuses, below 0 requests wait out their debt.",
			queries: []query{{"min by (ingress, bucket) (" + is("admitd_bucket_tokens", gate) + ")", "{{ingress}} {{bucket}}"}},
		},
		{
			kind: series, title: "Waiting for tokens", unit: count, w: 8,
			about:   "Requests that borrowed tokens and wait. Always 0 where the queue depth is 0.",
			queries: []query{{sum("ingress, bucket", is("admitd_bucket_waiting", gate)), "{{ingress}} {{bucket}}"}},
		},
		{
			kind: series, title: "Received, refused, exempted", unit: perSecond, w: 8,
			about: "Requests per second that were decided, that were refused, and that passed because they are exempt.",
			queries: []query{
				{sum("ingress", per("admitd_requests_received_total", gate)), "{{ingress}} received"},
				{sum("ingress", per("admitd_requests_rejected_total", gate)), "{{ingress}} rejected"},
				{sum("ingress", per("admitd_requests_exempted_total", gate)), "{{ingress}} exempted"},
			},
		},
		{
			kind: series, title: "Permits against the total", unit: count, w: 8,
			about: "Permits held over all partitions, against the bound on all together where there is one.",
			queries: []query{
				{sum("ingress", is("admitd_requests_in_flight", gate)), "{{ingress}} in flight"},
				{sum("ingress", is("admitd_permits_total_limit", gate)+" > 0"), "{{ingress}} total"},
			},
		},
		{
			kind: series, title: "Partitions", unit: count, w: 8,
			about: "Partitions that exist, those of clients' keys included, and requests per second that landed in overflow because there were too many.",
			queries: []query{
				{sum("ingress", is("admitd_partitions", gate)), "{{ingress}}"},
				{sum("ingress", per("admitd_requests_received_total", gate+`,partition="overflow"`)), "{{ingress}} overflow req/s"},
			},
		},
		{
			kind: series, title: "Wait that clients were told", unit: seconds, w: 8,
			about:   "The retry hint of the last refusal. Absent before the first one, or where hints are off.",
			queries: []query{{most("ingress", is("admitd_last_retry_hint_seconds", gate)), "{{ingress}}"}},
		},
		{
			kind: states, title: "Mode", unit: count, w: 24, h: 6, words: []word{{0, "no", "text"}, {1, "yes", "blue"}},
			about:   "What each ingress does: enforce refuses, shadow only counts what it would refuse, off decides nothing.",
			queries: []query{{most("ingress, mode", is("admitd_ingress_mode", gate)), "{{ingress}} {{mode}}"}},
		},
	}
}

func ingressLatency() []panel {
	return []panel{
		{
			kind: series, title: "The gate's own time", unit: seconds, w: 24,
			about: "p50 and p99 of what the gate itself took of a request, without the backend and without waiting. HTTP only, of a sample.",
			queries: []query{
				{"histogram_quantile(0.5, " + sum("ingress, le", per("admitd_gate_duration_seconds_bucket", gate)) + ")", "{{ingress}} p50"},
				{"histogram_quantile(0.99, " + sum("ingress, le", per("admitd_gate_duration_seconds_bucket", gate)) + ")", "{{ingress}} p99"},
			},
		},
		{
			kind: series, title: "Gate latency: time permits are held", unit: seconds, w: 12,
			about: "p50 and p99 per ingress of the time from permit to answer. It includes the backend; the gate has no metric for its own share alone, see CPU per request below.",
			queries: []query{
				{quantile(0.5, "ingress", gate), "{{ingress}} p50"},
				{quantile(0.99, "ingress", gate), "{{ingress}} p99"},
			},
		},
		{
			kind: heat, title: "Distribution of the time permits are held", unit: seconds, w: 12,
			about:   "All ingresses chosen above together.",
			queries: []query{{sum("le", "increase(admitd_request_duration_seconds_bucket{"+gate+"}[$__rate_interval])"), "{{le}}"}},
		},
	}
}

func ingressProtocols() []panel {
	return []panel{
		{
			kind: series, title: "Protocol errors", unit: rate, w: 8,
			about: "Connections refused for a bad PROXY header or TLS handshake, and Pulsar connections closed for a protocol error.",
			queries: []query{
				{sum("ingress, reason", per("admitd_connections_rejected_total", gate+`,reason=~"proxy_header|tls_handshake"`)), "{{ingress}} {{reason}}"},
				{sum("ingress, event", per("admitd_pulsar_events_total", gate+`,event="protocol_error"`)), "{{ingress}} pulsar {{event}}"},
			},
		},
		{
			kind: series, title: "MongoDB: drivers and what they understand", unit: rate, w: 8,
			about: "Handshakes per second by what the driver announced about backpressure, and refused commands whose client wants no reply, so that it does not learn of it.",
			queries: []query{
				{sum("ingress, generation", per("admitd_mongodb_handshakes_total", gate)), "{{ingress}} {{generation}}"},
				{sum("ingress", per("admitd_mongodb_unanswered_dropped_total", gate)), "{{ingress}} unanswered"},
			},
		},
		{
			kind: series, title: "Pulsar: events", unit: rate, w: 8,
			about:   "What happened on connections to brokers and producers, by event.",
			queries: []query{{sum("ingress, event", per("admitd_pulsar_events_total", gate)), "{{ingress}} {{event}}"}},
		},
		{
			kind: series, title: "Pulsar: messages that a limit held up", unit: rate, w: 12,
			about:   "Messages per second that did not pass at once, by topic and limit.",
			queries: []query{{sum("ingress, topic, limit", per("admitd_pulsar_limited_total", gate)), "{{ingress}} {{topic}} {{limit}}"}},
		},
		{
			kind: series, title: "Pulsar: time in which producers could not send", unit: share, w: 12,
			about:   "Seconds per second, summed over producers, so it can pass 100 %.",
			queries: []query{{sum("ingress, topic, reason", per("admitd_pulsar_throttled_seconds_total", gate)), "{{ingress}} {{topic}} {{reason}}"}},
		},
		{
			kind: series, title: "Pulsar: held in the gate", unit: count, w: 12,
			about: "Messages that wait for their producer's turn, connections that the gate does not read from, and producers that are open.",
			queries: []query{
				{sum("ingress", is("admitd_pulsar_held_frames", gate)), "{{ingress}} messages held"},
				{sum("ingress", is("admitd_pulsar_paused_connections", gate)), "{{ingress}} connections paused"},
				{sum("ingress", is("admitd_pulsar_producers", gate)), "{{ingress}} producers"},
			},
		},
		{
			kind: series, title: "Pulsar: bytes held in the gate", unit: bytesUnit, w: 12,
			about:   "Memory that waiting messages take. It is bounded; at the bound the gate stops reading.",
			queries: []query{{sum("ingress", is("admitd_pulsar_held_bytes", gate)), "{{ingress}}"}},
		},
	}
}

func ingressPostgres() []panel {
	return []panel{
		{
			kind: stacked, title: "Units of work", unit: perSecond, w: 8,
			about:   "Units that began outside a transaction, per second, by what they do: transactions by their first statement, `begin` where that is all it says.",
			queries: []query{{sum("ingress, operation", per("admitd_postgres_units_total", gate)), "{{ingress}} {{operation}}"}},
		},
		{
			kind: stacked, title: "Units refused", unit: perSecond, w: 8,
			about:   "Units per second that were answered by an error of class 53 instead of the server.",
			queries: []query{{sum("ingress, operation", per("admitd_postgres_units_refused_total", gate)), "{{ingress}} {{operation}}"}},
		},
		{
			kind: series, title: "Transactions", unit: count, w: 8,
			about: "Sessions that have a transaction open, beside the permits of those for whom the server works. Many more of the former: clients think while they hold locks. Suspended sessions wait for a lock, or have a statement that lasts much longer than usual, and hold no permit meanwhile. Connections that could not be looked into are counted too.",
			queries: []query{
				{sum("ingress", is("admitd_postgres_transactions_open", gate)), "{{ingress}} open"},
				{sum("ingress", is("admitd_requests_in_flight", gate)) + " and on (ingress) " + sum("ingress", is("admitd_postgres_transactions_open", gate)), "{{ingress}} at work"},
				{sum("ingress", is("admitd_postgres_sessions_suspended", gate)), "{{ingress}} suspended"},
				{sum("ingress", per("admitd_postgres_opaque_connections_total", gate)), "{{ingress}} opaque a second"},
			},
		},
	}
}

func ingressProcess() []panel {
	return []panel{
		{
			kind: series, title: "CPU per request", unit: seconds, w: 8,
			about:   "Processor time that an instance spends per request received: what the gate itself costs, all its ingresses together.",
			queries: []query{{over(sum("instance", per("process_cpu_seconds_total", process+`,job=~".*admitd.*"`)), sum("instance", per("admitd_requests_received_total", process))), "{{instance}}"}},
		},
		{
			kind: series, title: "Memory", unit: bytesUnit, w: 8,
			about:   "Resident memory of each instance.",
			queries: []query{{most("instance", is("process_resident_memory_bytes", process+`,job=~".*admitd.*"`)), "{{instance}}"}},
		},
		{
			kind: series, title: "Goroutines and open files", unit: count, w: 8,
			about: "Both follow the number of connections. One that grows while connections do not is a leak.",
			queries: []query{
				{most("instance", is("go_goroutines", process+`,job=~".*admitd.*"`)), "{{instance}} goroutines"},
				{most("instance", is("process_open_fds", process+`,job=~".*admitd.*"`)), "{{instance}} files"},
			},
		},
	}
}
