package main

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"
)

// figure is one thing that was told, beside the truth.
type figure struct {
	group, name string
	truth, told float64
	ok          bool
}

// sheet is the figures of one phase.
type sheet struct {
	phase   string
	figures []figure
	wrong   []string // what is no figure and does not hold
	unseen  string   // why panels were not compared; "" = they were
}

// exact compares what has to be equal.
func (s *sheet) exact(group, name string, truth, told float64) {
	s.close(group, name, truth, told, 0, 0)
}

// close compares what may differ by a share of the truth and so much more.
func (s *sheet) close(group, name string, truth, told, share, more float64) {
	s.figures = append(s.figures, figure{group, name, truth, told, near(truth, told, share, more)})
}

// exactly compares maps, a missing key being 0.
func (s *sheet) exactly(group, name string, truth, told map[string]float64) {
	for _, k := range sorted(truth, told) {
		s.exact(group, name+" "+k, truth[k], told[k])
	}
}

// fail notes what is no figure.
func (s *sheet) fail(format string, args ...any) {
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

// figureOf returns a figure by its name.
func (s *sheet) figureOf(name string) (figure, bool) {
	for _, f := range s.figures {
		if f.name == name {
			return f, true
		}
	}
	return figure{}, false
}

// unsure is the time between the end of an answer and the departure of a client in
// which nobody can say which of the two was first.
const unsure = 40 * time.Millisecond

// counters compares what was counted with the ledger.
func (p *play) counters(s *sheet, m metrics) {
	l, in := p.ledger, "ingress="+p.name
	stood := p.world.lag.worst(span{p.began, time.Now()})
	told := func(name string, match ...string) float64 { return m.sum("admitd_"+name, append(match, in)...) }
	received, admitted := told("requests_received_total"), told("requests_admitted_total")
	rejected, gaveUp := told("requests_rejected_total"), told("requests_gave_up_total")
	refused := float64(l.count(refusedBy))
	arrivals := float64(l.count(worked))
	unreached := float64(l.count(func(r *request) bool { return failed(r) && !worked(r) }))
	unworked := float64(l.count(func(r *request) bool { return r.left && wrote(r) && !worked(r) }))
	doubt := float64(l.count(func(r *request) bool { return leftBehind(r) && r.done.Sub(r.ended).Abs() < unsure+2*stood }))

	connections, greetings := 1, 0
	if p.protocol != nil {
		connections, greetings = p.protocol.connections, p.protocol.greetings
	}
	held := 0.0
	if p.protocol != nil && p.protocol.holds {
		held = rejected
	}
	s.exact("counters", "sent = received + invalid", float64(l.count(wrote)), received-held+told("requests_invalid_total"))
	s.exact("counters", "received = admitted + rejected + gave up", received, admitted+rejected+gaveUp)
	s.exact("counters", "left without having been worked for", unworked, gaveUp+rejected-held-refused+admitted-arrivals-unreached)
	s.exactly("counters", "invalid", l.by(func(r *request) (string, bool) { return fmt.Sprint(r.status), invalid(r) }), m.by("status", "admitd_requests_invalid_total", in))
	if unworked == 0 {
		s.exact("counters", "arrivals at the backend = admitted", arrivals+unreached, admitted)
		s.exactly("counters", "refused (partition, reason, limit)", l.by(func(r *request) (string, bool) {
			return p.label(r.refused.partition) + " " + r.refused.reason + " " + r.refused.limit, refusedBy(r)
		}), p.rejections(m))
	}
	s.exact("counters", "permits ended = admitted", admitted, told("permits_ended_total"))
	s.exactly("counters", "latencies = permits ended", m.by("outcome", "admitd_permits_ended_total", in), m.by("outcome", "admitd_request_duration_seconds_count", in))
	answers := l.by(func(r *request) (string, bool) {
		return p.class(r), r.answered > 0 && (p.protocol != nil || !failed(r))
	})
	if greetings > 0 {
		answers["ok"] += float64(greetings * l.dialed)
	}
	s.exactly("counters", "answers of the backend", answers, m.by("class", "admitd_backend_responses_total", in))
	s.exact("counters", "got no answer of the backend", float64(l.count(failed)), told("backend_failures_total"))
	s.close("counters", "abandoned", float64(l.count(leftBehind)), told("requests_abandoned_total"), 0, doubt)
	s.close("counters", "answered in time", float64(l.count(good)), told("permits_ended_total", "outcome=success")-told("requests_unheard_total"), 0, doubt)
	s.exact("counters", "connections", float64(l.dialed*connections), told("connections_accepted_total"))
	s.exact("counters", "connections open at the end", float64(l.open), told("connections_open"))
	if p.phase.exempt != nil {
		s.exact("counters", "exempted", float64(l.count(func(r *request) bool { return wrote(r) && p.phase.exempt(r) })), told("requests_exempted_total"))
	}
	if p.phase.classes {
		s.exactly("counters", "classes", l.by(func(r *request) (string, bool) {
			what := "admitted"
			switch {
			case r.refused.reason == "shed":
				what = "shed"
			case refusedBy(r):
				what = "rejected"
			}
			return r.class + " " + what, wrote(r)
		}), p.classes(m))
	}
	if l.strays > 0 {
		s.fail("%d arrivals at the backend that nobody sent", l.strays)
	}
}

// class is what metrics call the answer of a backend.
func (p *play) class(r *request) string {
	if p.protocol != nil {
		return "ok"
	}
	return fmt.Sprintf("%dxx", r.answered/100)
}

// label is what metrics call a partition.
func (p *play) label(partition string) string {
	for _, name := range p.phase.named {
		if partition == name {
			return name
		}
	}
	return "keys"
}

// rejections are what was rejected, by partition, reason and limit.
func (p *play) rejections(m metrics) map[string]float64 {
	out := map[string]float64{}
	for _, s := range m {
		if s.name == "admitd_requests_rejected_total" && s.labels["ingress"] == p.name && s.value > 0 {
			out[p.label(s.labels["partition"])+" "+s.labels["reason"]+" "+s.labels["limit"]] += s.value
		}
	}
	return out
}

// classes are requests by class and decision.
func (p *play) classes(m metrics) map[string]float64 {
	out := map[string]float64{}
	for _, s := range m {
		if s.name == "admitd_class_requests_total" && s.labels["ingress"] == p.name && s.value > 0 {
			out[s.labels["class"]+" "+s.labels["decision"]] += s.value
		}
	}
	return out
}

// same compares the status with the metrics of the same moment.
func (p *play) same(s *sheet, m metrics, st *ingressStatus) {
	in := "ingress=" + p.name
	for name, metric := range map[string]string{
		"received": "received", "admitted": "admitted", "rejected": "rejected", "gaveUp": "gave_up", "abandoned": "abandoned",
		"exempted": "exempted", "wouldReject": "would_reject",
	} {
		s.exact("status", name, m.sum("admitd_requests_"+metric+"_total", in), st.Counts.number(name))
	}
	s.exact("status", "succeeded", m.sum("admitd_permits_ended_total", in, "outcome=success"), st.Counts.number("succeeded"))
	s.exact("status", "failed", m.sum("admitd_backend_failures_total", in), st.Counts.number("failed"))
	s.exact("status", "waits", m.sum("admitd_queue_wait_seconds_count", in), st.Counts.number("waits"))
	s.exact("status", "connections", m.sum("admitd_connections_accepted_total", in), st.Connections.Accepted)
	s.exact("status", "connections open", m.sum("admitd_connections_open", in), st.Connections.Open)
	s.exactly("status", "answers", m.by("class", "admitd_backend_responses_total", in), st.Responses)
	s.exactly("status", "invalid", m.by("status", "admitd_requests_invalid_total", in), st.Invalid)
}

// spans compares what was exported with the ledger. Clients that leave are told of by
// the gate alone.
func (p *play) spans(s *sheet, told map[string]float64) {
	if p.protocol != nil {
		return // there are none
	}
	l := p.ledger
	// Of what is no request there is no span.
	unreadable := l.count(func(r *request) bool { return invalid(r) && (r.status == 400 || r.status == 431) })
	s.exact("spans", "spans = sent", float64(l.count(wrote)-unreadable), told["spans"])
	if l.count(func(r *request) bool { return r.left }) > 0 {
		return
	}
	for reason, n := range l.by(func(r *request) (string, bool) { return r.refused.reason, refusedBy(r) }) {
		s.exact("spans", "spans of "+reason, n, told[reason])
	}
}

// truths say of panels what they ought to show: by the label that the panel keeps
// apart, or "". What is not here is evaluated, and has to be possible.
func (p *play) truths() map[string]func(s span) map[string]float64 {
	l := p.ledger
	rate := func(of func(r *request) time.Time, f func(r *request) bool) func(s span) map[string]float64 {
		return func(s span) map[string]float64 {
			return map[string]float64{"": s.rate(float64(l.count(func(r *request) bool { return f(r) && s.has(of(r)) })))}
		}
	}
	sent := func(r *request) time.Time { return r.sent }
	ended := func(r *request) time.Time { return r.ended }
	done := func(r *request) time.Time { return r.done }
	received := rate(sent, func(r *request) bool { return !invalid(r) })
	rejected := rate(ended, refusedBy)
	answered := rate(done, good)
	over := func(a, b func(s span) map[string]float64) func(s span) map[string]float64 {
		return func(s span) map[string]float64 { return map[string]float64{"": a(s)[""] / b(s)[""]} }
	}
	quantile := func(q float64) func(s span) map[string]float64 {
		return func(s span) map[string]float64 {
			backend, _, _ := l.latencies(s, q)
			return map[string]float64{"": backend}
		}
	}
	atWork := func(s span) map[string]float64 { return map[string]float64{"": l.atWork(s)} }
	classes := func(s span) map[string]float64 {
		m := l.by(func(r *request) (string, bool) {
			return p.class(r), r.answered > 0 && s.has(r.done)
		})
		for k := range m {
			m[k] = s.rate(m[k])
		}
		return m
	}
	reasons := func(s span) map[string]float64 {
		m := l.by(func(r *request) (string, bool) { return r.refused.reason, refusedBy(r) && s.has(r.ended) })
		for k := range m {
			m[k] = s.rate(m[k])
		}
		return m
	}
	shares := func(s span) map[string]float64 {
		m := reasons(s)
		for k := range m {
			m[k] /= received(s)[""]
		}
		return m
	}
	t := map[string]func(s span) map[string]float64{
		"Goodput | goodput":                                  answered,
		"Goodput of run A | goodput":                         answered,
		"Refused share | rejected":                           over(rejected, received),
		"Refused share of run A | rejected":                  over(rejected, received),
		"What became of requests | answered":                 answered,
		"What became of requests | answered to nobody":       rate(done, func(r *request) bool { return leftBehind(r) && r.answered > 0 && r.answered < 500 }),
		"What became of requests | rejected":                 rejected,
		"What became of requests | invalid":                  rate(ended, invalid),
		"Refused share by reason | {{reason}}":               shares,
		"Refused share by reason, run A | {{reason}}":        shares,
		"Refused by reason | {{reason}}":                     reasons,
		"Answers by class | {{class}}":                       classes,
		"Failed by cause | {{ingress}} {{cause}}":            rate(ended, failed),
		"Received, refused, exempted | {{ingress}} received": received,
		"Received, refused, exempted | {{ingress}} rejected": rejected,
		"Received, admitted, given up | received":            received,
		"Received, admitted, given up | admitted":            rate(sent, func(r *request) bool { return worked(r) || failed(r) }),
		"Received, admitted, given up | left work behind":    rate(done, leftBehind),
		"Offered, good, refused, run A | offered":            received,
		"Offered, good, refused, run A | good":               answered,
		"Offered, good, refused, run A | rejected":           rejected,
		"In flight | in flight":                              atWork,
		"Limit against in flight | {{ingress}} in flight":    atWork,
		"Limit, in flight and queued | in flight":            atWork,
		"Limit against in flight, run A | in flight":         atWork,
		"Permits against the total | {{ingress}} in flight":  atWork,
	}
	for _, title := range []string{"Latency", "Latency of admitted requests against no load", "Latency against no load, run A",
		"Gate latency: time permits are held", "p50 of run A", "p99 of run A", "p99 of admitted"} {
		for _, legend := range []string{"p50", "{{ingress}} p50"} {
			t[title+" | "+legend] = quantile(0.5)
		}
		for _, legend := range []string{"p99", "{{ingress}} p99"} {
			t[title+" | "+legend] = quantile(0.99)
		}
	}
	if p.phase.limit > 0 {
		t["Limit in use | in use"] = func(s span) map[string]float64 {
			return map[string]float64{"": l.atWork(s) / float64(p.phase.limit)}
		}
	}
	return t
}

// stoodStill is for how long a machine may not run what it ought to before nothing is
// compared that is told of an instant.
const stoodStill = 60 * time.Millisecond

// panels evaluates every panel's query over the span.
func (p *play) panels(ctx context.Context, s *sheet, over span) {
	time.Sleep(time.Until(over.to.Add(2 * scrapeEvery)))
	s.unseen = ""
	if stood := p.world.lag.worst(over); stood > stoodStill {
		s.unseen = fmt.Sprintf("the machine stood still for %v", stood.Round(time.Millisecond))
		return
	}
	seen, err := p.world.prometheus.scrapes(ctx, p.gate.admin, over)
	if err != nil {
		s.fail("%v", err)
		return
	}
	if least := int(over.length()/scrapeEvery) - 2; seen < least {
		s.unseen = fmt.Sprintf("Prometheus has %d scrapes of %d", seen, int(over.length()/scrapeEvery))
		return
	}
	truths := p.truths()
	for i := range p.world.panels {
		panel := &p.world.panels[i]
		expr := panel.of(p.name, p.gate.admin, over.length())
		if !strings.Contains(panel.expr, "rate(") && !strings.Contains(panel.expr, "increase(") {
			expr = fmt.Sprintf("avg_over_time((%s)[%dms:%dms])", expr, over.length().Milliseconds(), scrapeEvery.Milliseconds())
		}
		found, err := p.world.prometheus.query(ctx, expr, over.to)
		if err != nil {
			s.fail("%s: %v", panel.name(), err)
			continue
		}
		share := strings.Contains(strings.ToLower(panel.title), "share") || panel.title == "Callers that leave"
		for _, f := range found {
			if f.value < 0 && !strings.HasPrefix(panel.title, "Tokens") || share && f.value > 1.05 {
				s.fail("%s shows %g %v", panel.name(), f.value, f.labels)
			}
		}
		truth := truths[panel.title+" | "+panel.legend]
		if truth == nil || p.moves {
			continue
		}
		told := map[string]float64{}
		for _, f := range found {
			told[key(f.labels)] += f.value
		}
		want := truth(over)
		for _, k := range sorted(want, told) {
			p.panel(s, panel, k, want[k], told[k], len(found) == 0, over)
		}
	}
}

// panel compares one figure of a panel. Quantiles are as fine as the buckets are.
func (p *play) panel(s *sheet, panel *panel, k string, truth, told float64, empty bool, over span) {
	name := panel.name()
	if k != "" {
		name += " " + k
	}
	// The gate stands between backend and client, so that what it measures does too. On a
	// busy machine that is some milliseconds for each request.
	underway := 0.01 * over.rate(float64(p.ledger.count(func(r *request) bool { return over.has(r.arrived) })))
	switch {
	case strings.Contains(panel.expr, "histogram_quantile"):
		q := 0.99
		if strings.Contains(panel.expr, "(0.5") {
			q = 0.5
		}
		_, client, n := p.ledger.latencies(over, q)
		switch {
		case empty && n == 0:
			s.exact("panels", name, math.NaN(), math.NaN())
		case n >= 30:
			ok := told >= truth/finest-0.002 && told <= max(truth, client)*finest+0.002
			s.figures = append(s.figures, figure{"panels", name, truth, told, ok})
		}
	case strings.Contains(strings.ToLower(panel.title), "share"):
		if !empty && !math.IsNaN(truth) { // of nothing there is no share
			s.close("panels", name, truth, told, 0.1, 0.04)
		}
	case panel.title == "Limit in use":
		s.close("panels", name, truth, told, 0.1, 0.02+underway/float64(p.phase.limit))
	case strings.Contains(panel.legend, "in flight"):
		s.close("panels", name, truth, told, 0.1, 1+underway)
	default:
		s.close("panels", name, truth, told, 0.1, 3)
	}
}

// finest is how far apart the bounds of the buckets are at most: by so much a quantile
// may be off.
const finest = 1.7

// key is the label that a panel keeps apart.
func key(labels map[string]string) string {
	for _, name := range []string{"reason", "class", "outcome", "partition"} {
		if v := labels[name]; v != "" {
			return v
		}
	}
	return ""
}
