package main

import "fmt"

// What a query is about. Every selector names the job and the instance, and on Kubernetes
// its namespace and its pod, which match where there are none.
const (
	process = `job=~"$job",namespace=~"$namespace",pod=~"$pod",instance=~"$instance"`
	gate    = process + `,ingress=~"$ingress"`
	part    = gate + `,partition=~"$partition"`
)

// per is the increase per second of a counter.
func per(metric, selector string) string {
	return fmt.Sprintf("rate(%s{%s}[$__rate_interval])", metric, selector)
}

// sum adds up, by labels if any are named.
func sum(by, expr string) string { return aggregate("sum", by, expr) }

// most takes the largest.
func most(by, expr string) string { return aggregate("max", by, expr) }

func aggregate(how, by, expr string) string {
	if by == "" {
		return fmt.Sprintf("%s(%s)", how, expr)
	}
	return fmt.Sprintf("%s by (%s) (%s)", how, by, expr)
}

// over divides; nothing comes of a divisor that is zero.
func over(a, b string) string { return fmt.Sprintf("%s / (%s > 0)", a, b) }

// quantile of the latency of what was answered well, from the classic buckets: native
// ones are not everywhere. A backend that refuses connections is quick at that.
func quantile(q float64, by, selector string) string {
	if by != "" {
		by += ", "
	}
	return fmt.Sprintf("histogram_quantile(%v, %s)", q,
		sum(by+"le", per("admitd_request_duration_seconds_bucket", selector+`,outcome="success"`)))
}

// goodput is how many requests per second were answered well to callers that were still
// there.
func goodput(by, selector string) string {
	return sum(by, per("admitd_permits_ended_total", selector+`,outcome="success"`)) + " - " + sum(by, per("admitd_requests_unheard_total", selector))
}

// is selects a metric.
func is(metric, selector string) string { return metric + "{" + selector + "}" }

// state selects one part of the inner state of the partition's algorithm.
func state(name string) string {
	return is("admitd_algorithm_state", part+`,state="`+name+`"`)
}
