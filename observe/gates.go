package observe

import (
	"maps"
	"slices"
	"strings"
	"sync"

	dto "github.com/prometheus/client_model/go"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// StatusReader is a gate, as far as it is read at scrape time.
type StatusReader interface {
	Page(o limiter.StatusOptions) limiter.Status
}

// ofConfiguration leaves the partitions of clients' keys out: what is exposed of
// them are sums.
func ofConfiguration() limiter.StatusOptions {
	return limiter.StatusOptions{Partitions: limiter.NoKeys}
}

// Watch exposes the status of a gate until stop is called. Gates are told apart
// by the name in their status; of two with one name the later is exposed.
func (m *Metrics) Watch(name string, g StatusReader) (stop func()) { return m.gates.watch(name, g) }

// cause is why requests are refused, with the labels that say so.
type cause struct {
	limiter.Cause
	limit, reason *dto.LabelPair
}

// gates collects the metrics that follow from the status of gates.
type gates struct {
	ofGate   gateFamilies
	ofClass  classFamilies
	ofBucket bucketFamilies
	ofLabel  labelFamilies

	mu   sync.Mutex // guards the fields below
	read map[string]StatusReader
}

func newGates() *gates {
	return &gates{
		ofGate: newGateFamilies(), ofClass: newClassFamilies(), ofBucket: newBucketFamilies(), ofLabel: newLabelFamilies(),
		read: map[string]StatusReader{},
	}
}

func (g *gates) watch(name string, r StatusReader) (stop func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.read[name] = r
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.read[name] == r {
			delete(g.read, name)
		}
	}
}

// collect implements [source].
func (g *gates) collect(b *builder) {
	g.mu.Lock()
	read := maps.Clone(g.read)
	g.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		s := read[name].Page(ofConfiguration())
		ingress := pair("ingress", name)
		g.ofGate.collect(b, ingress, &s)
		if len(s.Classes) > 0 {
			g.ofClass.collect(b, ingress, &s)
		}
		g.ofBucket.collectAll(b, ingress, &s)
		for i := range s.Labels {
			s.Labels[i].Limit = bounded(s.Labels[i].Limit, s.Total) // else it says what can never be held
			g.ofLabel.collect(b, ingress, &s.Labels[i])
		}
		if s.LastHint > 0 {
			b.add(&g.ofGate.lastHint, s.LastHint.Seconds(), ingress)
		}
	}
}

// bounded returns a limit within the total; 0 = there is none.
func bounded(limit, total int) int {
	if total > 0 {
		return min(limit, total)
	}
	return limit
}

// gateFamilies are the metrics that exist once for a gate.
type gateFamilies struct {
	exempted, fallback, draining, mode, partitions, permits family
	total, lastHint, endedTwice                             family
	modes                                                   []*dto.LabelPair // by limiter.Mode
}

func newGateFamilies() gateFamilies {
	f := gateFamilies{
		exempted:   newCounter("requests_exempted_total", "Requests that passed because they are exempt."),
		fallback:   newGauge("fallback_active", "1 while limits are fixed because the clock cannot be trusted."),
		draining:   newGauge("ingress_draining", "1 once the ingress admits nothing new."),
		mode:       newGauge("ingress_mode", "1 for the mode that is in force."),
		partitions: newGauge("partitions", "Partitions that exist, clients' keys included."),
		permits:    newGauge("permits_limit", "Permits that may be held at once over the partitions that were asked for something: the sum of their limits, bounded by the total."),
		total:      newGauge("permits_total_limit", "Hard bound on permits over all partitions; 0 = none."),
		endedTwice: newCounter("permits_ended_twice_total", "Permits that a copy of them ended a second time, as far as it was found out."),
		lastHint:   newGauge("last_retry_hint_seconds", "The wait that the last refused request was told."),
	}
	for _, mode := range []limiter.Mode{limiter.Enforce, limiter.Shadow, limiter.Off} {
		f.modes = append(f.modes, pair("mode", mode.String()))
	}
	return f
}

// collect emits them.
func (f *gateFamilies) collect(b *builder, ingress *dto.LabelPair, s *limiter.Status) {
	exempted, sum := uint64(0), 0
	for i := range s.Labels {
		sum += s.Labels[i].Asked
		exempted += s.Labels[i].Counts.Exempted
	}
	b.add(&f.exempted, float64(exempted), ingress)
	b.add(&f.fallback, number(s.Fallback), ingress)
	b.add(&f.draining, number(s.Draining), ingress)
	b.add(&f.partitions, float64(s.PartitionCount), ingress)
	b.add(&f.total, float64(s.Total), ingress)
	b.add(&f.endedTwice, float64(s.EndedTwice), ingress)
	b.add(&f.permits, float64(bounded(sum, s.Total)), ingress)
	for i, mode := range f.modes {
		b.add(&f.mode, number(int(s.Mode) == i), ingress, mode)
	}
}

// classFamilies are the metrics that exist where requests differ in class.
type classFamilies struct {
	classes, unknownClasses, threshold family
}

func newClassFamilies() classFamilies {
	return classFamilies{
		classes:        newCounter("class_requests_total", "Requests by class and what became of them."),
		unknownClasses: newCounter("class_unknown_total", "Requests that named a class which there is not; the default counted."),
		threshold:      newGauge("shed_threshold", "Last of 128 levels that is served wholly, 32 for each class; 127 = nobody is shed."),
	}
}

// collect emits them.
func (f *classFamilies) collect(b *builder, ingress *dto.LabelPair, s *limiter.Status) {
	b.add(&f.threshold, float64(s.ShedThreshold), ingress)
	b.add(&f.unknownClasses, float64(s.UnknownClasses), ingress)
	for i := range s.Classes {
		c := &s.Classes[i]
		class := b.label("class", c.Class.String())
		if c.Class == labels.ExemptClass {
			b.add(&f.classes, float64(c.Exempted), class, b.label("decision", "exempted"), ingress)
			continue
		}
		for decision, n := range map[string]uint64{"admitted": c.Admitted, "rejected": c.Rejected, "shed": c.Shed} {
			b.add(&f.classes, float64(n), class, b.label("decision", decision), ingress)
		}
	}
}

// bucketFamilies are the metrics that exist for each bucket.
type bucketFamilies struct {
	tokens, waiting family
}

func newBucketFamilies() bucketFamilies {
	return bucketFamilies{
		tokens:  newGauge("bucket_tokens", "Tokens left in a bucket; negative when some are owed."),
		waiting: newGauge("bucket_waiting", "Requests that borrowed tokens and wait out their debt."),
	}
}

// collectAll emits them for the gate's bucket and those of its partitions.
func (f *bucketFamilies) collectAll(b *builder, ingress *dto.LabelPair, s *limiter.Status) {
	f.collect(b, ingress, "requests", s.Bucket)
	for i := range s.Partitions {
		// Only partitions of the configuration: their names are bounded.
		if p := &s.Partitions[i]; p.Bucket != nil && p.Name == p.Label {
			f.collect(b, ingress, "partition/"+p.Name, p.Bucket)
		}
	}
}

// collect emits them for one bucket, if there is one.
func (f *bucketFamilies) collect(b *builder, ingress *dto.LabelPair, name string, s *limiter.BucketStatus) {
	if s == nil {
		return
	}
	bucket := pair("bucket", name)
	b.add(&f.tokens, s.Tokens, bucket, ingress)
	b.add(&f.waiting, float64(s.Waiting), bucket, ingress)
}

// labelFamilies are the metrics that exist for each label of partitions.
type labelFamilies struct {
	received, admitted, rejected, wouldReject, gaveUp, abandoned family
	unheard                                                      family
	discarded, limit, inFlight, queued, baseRTT, state, events   family
	causes                                                       []cause // in the order of limiter.Causes
}

func newLabelFamilies() labelFamilies {
	f := labelFamilies{
		received:    newCounter("requests_received_total", "Requests that were decided, or whose caller gave up waiting."),
		admitted:    newCounter("requests_admitted_total", "Requests that were granted a permit."),
		rejected:    newCounter("requests_rejected_total", "Requests that were refused before any work ran."),
		wouldReject: newCounter("requests_would_reject_total", "Requests that passed in shadow mode and would have been refused."),
		gaveUp:      newCounter("requests_gave_up_total", "Requests whose caller went away while they waited."),
		abandoned:   newCounter("requests_abandoned_total", "Requests whose caller went away while the backend worked for them."),
		unheard:     newCounter("requests_unheard_total", "Requests that ended well after their caller had gone."),
		discarded:   newCounter("latency_samples_discarded_total", "Latencies that taught no limit."),
		limit:       newGauge("concurrency_limit", "Permits that may be held at once, bounded by the total; for the partitions of clients' keys together, their sum."),
		inFlight:    newGauge("requests_in_flight", "Permits held."),
		queued:      newGauge("requests_queued", "Requests that wait for a permit."),
		baseRTT:     newGauge("base_rtt_seconds", "Latency without load, as the limit believes it; absent while unknown."),
		state:       newGauge("algorithm_state", "Inner state of the limit's algorithm, by name."),
		events:      newCounter("algorithm_events_total", "What happened to the limit's algorithm, by event."),
	}
	for _, c := range limiter.Causes() {
		f.causes = append(f.causes, cause{c, pair("limit", string(c.Limit)), pair("reason", string(c.Reason))})
	}
	return f
}

// collect emits them.
func (f *labelFamilies) collect(b *builder, ingress *dto.LabelPair, l *limiter.LabelStatus) {
	partition := pair("partition", l.Label)
	both := []*dto.LabelPair{ingress, partition} // shared by every sample that has no more
	c := &l.Counts
	b.add(&f.received, float64(c.Received()), both...)
	b.add(&f.admitted, float64(c.Admitted), both...)
	b.add(&f.gaveUp, float64(c.GaveUp), both...)
	b.add(&f.abandoned, float64(c.Abandoned), both...)
	b.add(&f.unheard, float64(c.Unheard), both...)
	for _, why := range f.causes {
		b.add(&f.rejected, float64(c.RejectedBy[why.Cause]), ingress, why.limit, partition, why.reason)
		if n := c.WouldRejectBy[why.Cause]; n > 0 {
			b.add(&f.wouldReject, float64(n), ingress, why.limit, partition, why.reason)
		}
	}
	for reason, n := range c.Discarded {
		if n > 0 {
			b.add(&f.discarded, float64(n), ingress, partition, b.label("reason", reason))
		}
	}
	if l.Partitions > 0 {
		b.add(&f.limit, float64(l.Limit), b.label("algorithm", l.Algorithm), ingress, partition)
	}
	b.add(&f.inFlight, float64(l.InFlight), both...)
	b.add(&f.queued, float64(l.Queued), both...)
	if l.BaseRTT > 0 {
		b.add(&f.baseRTT, l.BaseRTT.Seconds(), both...)
	}
	for name, value := range l.State {
		if event, counts := strings.CutSuffix(name, "_total"); counts { // a counter among gauges
			b.add(&f.events, value, b.label("event", event), ingress, partition)
			continue
		}
		b.add(&f.state, value, ingress, partition, b.label("state", name))
	}
}
