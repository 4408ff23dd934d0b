package admin

import (
	"math"
	"time"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// statusDocument is the body of GET /v1/status.
type statusDocument struct {
	Version       string            `json:"version"`
	At            time.Time         `json:"at"`
	UptimeSeconds float64           `json:"uptimeSeconds"`
	Draining      bool              `json:"draining"`
	Clock         Clock             `json:"clock"`
	Config        Config            `json:"config"`
	Ingresses     []ingressDocument `json:"ingresses"`
}

type ingressDocument struct {
	Name        string               `json:"name"`
	Protocol    string               `json:"protocol"`
	Listen      string               `json:"listen"`
	Backend     string               `json:"backend"`
	Mode        string               `json:"mode"`
	Draining    bool                 `json:"draining"`
	Fallback    bool                 `json:"fallback"`
	InFlight    int                  `json:"inFlight"`
	Queued      int                  `json:"queued"`
	Total       int                  `json:"total"` // bound on permits, 0 = none
	Requests    *bucketDocument      `json:"requests,omitempty"`
	Connections *connectionsDocument `json:"connections,omitempty"`
	Counts      countsDocument       `json:"counts"` // over all partitions
	Partitions  []partitionDocument  `json:"partitions"`
	// PartitionCount is how many exist, listed or not.
	PartitionCount int `json:"partitionCount"`
	Details        any `json:"details,omitempty"`
}

type bucketDocument struct {
	Rate         float64 `json:"rate"` // per second
	BurstSeconds float64 `json:"burstSeconds"`
	Burst        float64 `json:"burst"`
	Tokens       float64 `json:"tokens"`
	QueueDepth   int     `json:"queueDepth"`
	Waiting      int     `json:"waiting"`
}

type connectionsDocument struct {
	Open     int64             `json:"open"`
	Waiting  int64             `json:"waiting"`
	MaxOpen  int64             `json:"maxOpen"`
	Accepted uint64            `json:"accepted"`
	Rejected map[string]uint64 `json:"rejected"`
	Tokens   *float64          `json:"tokens,omitempty"`
}

type partitionDocument struct {
	Name      string             `json:"name"`
	Label     string             `json:"label"`         // as metrics carry it
	Key       bool               `json:"key,omitempty"` // it stands for a client's key
	Algorithm string             `json:"algorithm"`
	Limit     int                `json:"limit"`
	InFlight  int                `json:"inFlight"`
	Abandoned int                `json:"abandoned"` // of these, the ones whose callers have gone
	Wasted    float64            `json:"wasted"`    // share of the work done that was for nobody, 0 to 1
	Queued    int                `json:"queued"`
	BaseRTTMS float64            `json:"baseRTTMS"`     // 0 = unknown
	Why       string             `json:"why,omitempty"` // why the limit last changed
	Fallback  bool               `json:"fallback"`
	Requests  *bucketDocument    `json:"requests,omitempty"`
	State     map[string]float64 `json:"state,omitempty"`
	Counts    countsDocument     `json:"counts"`
}

type countsDocument struct {
	Received    uint64                   `json:"received"`
	Admitted    uint64                   `json:"admitted"`
	Exempted    uint64                   `json:"exempted"`
	GaveUp      uint64                   `json:"gaveUp"`    // while they waited
	Abandoned   uint64                   `json:"abandoned"` // while the backend worked
	Dropped     uint64                   `json:"dropped"`
	Ignored     uint64                   `json:"ignored"`
	Rejected    map[labels.Reason]uint64 `json:"rejected,omitempty"`    // without zeros
	WouldReject map[labels.Reason]uint64 `json:"wouldReject,omitempty"` // without zeros
	Discarded   map[string]uint64        `json:"discarded,omitempty"`   // without zeros
}

// newStatus words a snapshot.
func newStatus(s *Snapshot, now time.Time) statusDocument {
	d := statusDocument{
		Version: s.Version, At: now.UTC(), UptimeSeconds: now.Sub(s.Started).Seconds(), Draining: s.Draining,
		Clock: s.Clock, Config: s.Config, Ingresses: make([]ingressDocument, 0, len(s.Ingresses)),
	}
	for i := range s.Ingresses {
		in := newIngress(&s.Ingresses[i])
		configured := map[string]bool{}
		for j := range s.Ingresses[i].Gate.Partitions {
			p := newPartition(&s.Ingresses[i].Gate.Partitions[j], in.Fallback)
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

// newIngress words an ingress without its partitions.
func newIngress(in *Ingress) ingressDocument {
	g := &in.Gate
	sum := newSum()
	for i := range g.Labels {
		sum.add(&g.Labels[i].Counts)
	}
	return ingressDocument{
		Name: in.Name, Protocol: in.Protocol, Listen: in.Listen, Backend: in.Backend,
		Mode: g.Mode.String(), Draining: g.Draining, Fallback: g.Fallback,
		InFlight: g.InFlight, Queued: g.Queued, Total: g.Total,
		Requests: newBucket(g.Bucket), Connections: newConnections(in.Connections),
		Counts: sum, Partitions: []partitionDocument{}, PartitionCount: g.PartitionCount, Details: in.Details,
	}
}

func newBucket(b *limiter.BucketStatus) *bucketDocument {
	if b == nil {
		return nil
	}
	return &bucketDocument{
		Rate: b.PerSecond, BurstSeconds: b.BurstSeconds, Burst: b.Burst, Tokens: b.Tokens,
		QueueDepth: b.QueueDepth, Waiting: b.Waiting,
	}
}

func newConnections(c *ingress.Status) *connectionsDocument {
	if c == nil {
		return nil
	}
	d := &connectionsDocument{
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

func newPartition(p *limiter.PartitionStatus, fallback bool) partitionDocument {
	d := partitionDocument{
		Name: p.Name, Label: p.Label, Key: p.Key, Algorithm: p.Algorithm, Limit: p.Limit, InFlight: p.InFlight, Queued: p.Queued,
		Abandoned: p.Abandoned, Wasted: p.WastedShare, Why: p.Why, BaseRTTMS: float64(p.BaseRTT) / float64(time.Millisecond), Fallback: fallback, Requests: newBucket(p.Bucket),
		Counts: newSum(),
	}
	d.Counts.add(&p.Counts)
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

func newSum() countsDocument {
	return countsDocument{
		Rejected: map[labels.Reason]uint64{}, WouldReject: map[labels.Reason]uint64{}, Discarded: map[string]uint64{},
	}
}

// add adds counts, and leaves zeros out.
func (d *countsDocument) add(c *limiter.Counts) {
	d.Received += c.Received()
	d.Admitted += c.Admitted
	d.Exempted += c.Exempted
	d.GaveUp += c.GaveUp
	d.Abandoned += c.Abandoned
	d.Dropped += c.Dropped
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
