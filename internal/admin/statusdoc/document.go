package statusdoc

import (
	"math"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Words makes the document of a snapshot, with what the book knows.
func Words(s *Snapshot, now time.Time, book *history.Book) status.Document {
	d := status.Document{
		Version: s.Version, At: now.UTC(), UptimeSeconds: now.Sub(s.Started).Seconds(), Draining: s.Draining,
		Clock: s.Clock, Config: s.Config, Shadow: s.Shadow, Tuner: s.Tuner, Fleet: s.Fleet, Ingresses: make([]status.Ingress, 0, len(s.Ingresses)), Marks: newMarks(book.Marks(now)),
	}
	for _, r := range labels.Reasons() {
		d.Reasons = append(d.Reasons, status.Reason{Name: string(r), Words: r.Words()})
	}
	for i := range s.Ingresses {
		in := newIngress(&s.Ingresses[i])
		all := book.Gauges(in.Name)
		in.Limit, in.BaseRTTMS = all.Limit, all.BaseRTTMS
		in.ETag = s.Ingresses[i].ETag
		in.Top = Top(s.Ingresses[i].TopKeys, topkeys.Kinds(), statusTop, false)
		in.Forecast = book.Forecast(in.Name, now)
		in.Verdict = newVerdict(book.Verdict(in.Name, now))
		p50, p99 := book.Quantiles(in.Name)
		in.P50MS, in.P99MS = milliseconds(p50), milliseconds(p99)
		p50, p99 = book.OwnQuantiles(in.Name)
		in.GateP50MS, in.GateP99MS = milliseconds(p50), milliseconds(p99)
		judgeBackends(&in)
		configured := map[string]bool{}
		for j := range s.Ingresses[i].Gate.Partitions {
			p := newPartition(&s.Ingresses[i].Gate.Partitions[j], in.Fallback)
			p.Explain = book.Sentence(in.Name, &s.Ingresses[i].Gate.Partitions[j])
			if !p.Key {
				configured[p.Name] = true // these come first
			} else if configured[p.Name] {
				p.Name += " (key)" // a client may choose any; names tell rows apart
			}
			in.Partitions = append(in.Partitions, p)
		}
		d.Ingresses = append(d.Ingresses, in)
	}
	return d
}

// statusTop is how many of each kind the status tells.
const statusTop = 3

// newIngress words an ingress without its partitions.
func newIngress(in *Ingress) status.Ingress {
	g := &in.Gate
	sum := newSum()
	for i := range g.Labels {
		addTo(&sum, &g.Labels[i].Counts, g.Labels[i].InFlight)
	}
	d := status.Ingress{
		Name: in.Name, Protocol: in.Protocol, Listen: in.Listen, Backend: in.Backend,
		Mode: g.Mode.String(), Draining: g.Draining, Fallback: g.Fallback,
		InFlight: g.InFlight, Queued: g.Queued, Total: g.Total,
		Requests: newBucket(g.Bucket), Connections: newConnections(in.Connections),
		Counts: sum, Partitions: []status.Partition{}, PartitionCount: g.PartitionCount, Details: in.Details,
	}
	d.Classes = newClasses(g)
	d.Responses, d.Invalid = newResponses(in.Connections)
	for i := range g.Shapes {
		s := &g.Shapes[i]
		d.Shapes = append(d.Shapes, status.Shape{
			Name: s.Name, Ended: s.Ended, Refused: s.Refused, MeanMS: milliseconds(s.Mean), Share: s.Share, Bytes: s.Bytes, Cost: s.Cost,
		})
	}
	for i := range in.Backends {
		b := newBackend(&in.Backends[i])
		for _, n := range b.Failures {
			d.Counts.Failed += n
		}
		d.Backends = append(d.Backends, b)
	}
	return d
}

// newResponses counts what was answered, by the backend and by the gate itself.
func newResponses(c *ingress.Status) (backend, gate map[string]uint64) {
	if c == nil {
		return nil, nil
	}
	backend, gate = map[string]uint64{}, map[string]uint64{}
	for _, class := range ingress.Responses() {
		if int(class) < len(c.Responses) && c.Responses[class] > 0 {
			backend[class.String()] = c.Responses[class]
		}
	}
	for _, i := range c.Invalid {
		gate[i.Name()] = i.Count
	}
	return backend, gate
}

// newClasses words who goes first, nil where nobody does.
func newClasses(g *limiter.Status) *status.Classes {
	if len(g.Classes) == 0 {
		return nil
	}
	c := &status.Classes{Threshold: g.ShedThreshold, Unknown: g.UnknownClasses}
	for i := range g.Classes {
		n := &g.Classes[i]
		c.Counts = append(c.Counts, status.ClassCount{
			Class: n.Class.String(), Admitted: n.Admitted, Rejected: n.Rejected, Shed: n.Shed, Exempted: n.Exempted,
		})
	}
	return c
}

// newBackend words a backend.
func newBackend(b *ingress.BackendStatus) status.Backend {
	d := status.Backend{Address: b.Address, State: string(b.State), Since: b.Since, Cause: b.Cause, LastFail: b.LastFail, Failures: map[string]uint64{}}
	for i, cause := range ingress.Causes() {
		if n := b.Failures[i]; n > 0 {
			d.Failures[cause.String()] = n
		}
	}
	return d
}

// newVerdict words a verdict.
func newVerdict(v history.Verdict) status.Verdict {
	return status.Verdict{Condition: string(v.Condition), Level: string(v.Level), Text: v.Text, Told: v.Told}
}

// newMarks words what was done.
func newMarks(all []history.Mark) []status.Mark {
	out := make([]status.Mark, len(all))
	for i, m := range all {
		out[i] = status.Mark(m)
	}
	return out
}

// judgeBackends says of those that answer that they are slow, when they are.
func judgeBackends(d *status.Ingress) {
	for i := range d.Backends {
		if b := &d.Backends[i]; b.State == string(ingress.BackendUp) && d.Verdict.Condition == string(history.BackendIsSlow) {
			b.State = "slow"
		}
	}
}

func newBucket(b *limiter.BucketStatus) *status.Bucket {
	if b == nil {
		return nil
	}
	return &status.Bucket{
		Rate: b.PerSecond, BurstSeconds: b.BurstSeconds, Burst: b.Burst, Tokens: b.Tokens,
		QueueDepth: b.QueueDepth, Waiting: b.Waiting,
	}
}

func newConnections(c *ingress.Status) *status.Connections {
	if c == nil {
		return nil
	}
	d := &status.Connections{
		Open: c.Open, Waiting: c.Queued, MaxOpen: c.MaxOpen, Accepted: c.Accepted, Rejected: map[string]uint64{},
	}
	for _, why := range ingress.Refusals() {
		if int(why) < len(c.Refused) {
			d.Rejected[why.String()] = c.Refused[why]
		}
	}
	if finite(c.Tokens) {
		d.Tokens = &c.Tokens
	}
	return d
}

func newPartition(p *limiter.PartitionStatus, fallback bool) status.Partition {
	d := status.Partition{
		Name: p.Name, Label: p.Label, Key: p.Key, Algorithm: p.Algorithm, Limit: p.Limit, InFlight: p.InFlight, Queued: p.Queued,
		Abandoned: p.Abandoned, Wasted: p.WastedShare, Why: p.Why, BaseRTTMS: milliseconds(p.BaseRTT), Fallback: fallback, Requests: newBucket(p.Bucket),
		Counts: newSum(),
	}
	addTo(&d.Counts, &p.Counts, p.InFlight)
	d.Counts.Failed = p.Counts.Dropped
	for key, value := range p.State {
		if finite(value) { // JSON has no word for the rest
			if d.State == nil {
				d.State = make(map[string]float64, len(p.State))
			}
			d.State[key] = value
		}
	}
	return d
}

// milliseconds words a time.
func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func newSum() status.Counts {
	return status.Counts{
		Rejected: map[labels.Reason]uint64{}, WouldReject: map[labels.Reason]uint64{}, Discarded: map[string]uint64{},
	}
}

// addTo adds counts, and leaves zeros out.
func addTo(d *status.Counts, c *limiter.Counts, inFlight int) {
	d.Received += c.Received()
	d.Admitted += c.Admitted
	d.Exempted += c.Exempted
	d.GaveUp += c.GaveUp
	d.Abandoned += c.Abandoned
	d.Dropped += c.Dropped
	d.Waits += c.Waits
	d.WaitedMS += float64(c.Waited) / float64(time.Millisecond)
	d.Succeeded += c.Succeeded(inFlight)
	d.BusyMS += float64(c.Busy) / float64(time.Millisecond)
	d.Ignored += c.Ignored
	addCounts(d.Rejected, c.Rejected)
	addCounts(d.WouldReject, c.WouldReject)
	addCounts(d.Discarded, c.Discarded)
}

func addCounts[K comparable](sum, more map[K]uint64) {
	for k, n := range more {
		if n > 0 {
			sum[k] += n
		}
	}
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Top words who asks an ingress; nil when nothing is known.
func Top(board *topkeys.Board, kinds []topkeys.Kind, n int, byRefused bool) map[string][]status.Asker {
	if board == nil {
		return nil
	}
	var out map[string][]status.Asker
	for _, kind := range kinds {
		rows := board.Top(kind, n, byRefused)
		if len(rows) == 0 {
			continue
		}
		list := make([]status.Asker, len(rows))
		for i, row := range rows {
			list[i] = status.Asker{Name: row.Name, Received: tenths(row.Received), Refused: tenths(row.Refused), Over: tenths(row.Over)}
		}
		if out == nil {
			out = map[string][]status.Asker{}
		}
		out[string(kind)] = list
	}
	return out
}

// tenths rounds a rate.
func tenths(v float64) float64 { return math.Round(v*10) / 10 }
