package topics

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/limiter"
)

// PublishRate is a limit on what may be published. Zero fields do not limit.
type PublishRate struct {
	Messages float64 // per second
	Bytes    float64 // per second; whole frames
	// BurstSeconds is the depth of both buckets in seconds of their rate; 0 = 1 s.
	BurstSeconds float64
}

// Limit is the limit of each topic that a pattern matches. A topic that is
// spelled in short form matches like its full name, and a partition of a topic
// like the topic itself.
type Limit struct {
	// Name labels the topics in metrics.
	Name string
	// Match is a full topic name, without partition; a trailing * matches any
	// rest. The first limit that matches counts.
	Match string
	PublishRate
}

// Group is a limit that several topics share: a resource group.
type Group struct {
	Name  string
	Match []string // as in [Limit]; a topic may belong to several groups
	PublishRate
}

// The names of the rates, as they are counted.
const (
	TopicMessages = "topic_messages"
	TopicBytes    = "topic_bytes"
	GroupMessages = "group_messages"
	GroupBytes    = "group_bytes"
	GateMessages  = "gate_messages"
	GateBytes     = "gate_bytes"
)

// byteUnit is the number of bytes per token of a byte bucket. A bucket can owe a
// million tokens, so that a frame may exceed the burst and still be paid in full.
const byteUnit = 1024.0

// debtRoom is how many tokens a bucket may owe beyond its burst.
const debtRoom = 1_000_000

// Meter is one bucket that a message has to pay. It is safe for concurrent use.
type Meter struct {
	Limit    string            // one of the names of the rates
	Reason   pulsarwire.Reason // that clients are told
	bucket   *limiter.Bucket
	bytes    bool          // counts bytes, not messages
	resumeAt *atomic.Int64 // monotonic ns until which nobody may pay; keeps pauses whole
}

// Cost returns the tokens of a message.
func (m *Meter) Cost(messages, size int) float64 {
	if m.bytes {
		return float64(size) / byteUnit
	}
	return float64(messages)
}

// Wait returns for how long the cost cannot be paid.
func (m *Meter) Wait(now int64, cost float64) time.Duration { return m.bucket.Wait(now, cost) }

// refuse has everybody wait from now on, at least as long as minPause, so that a
// meter that has run dry refills before it is asked again. That of the gate goes
// on being asked.
func (m *Meter) refuse(now int64, wait, minPause time.Duration) (time.Duration, *Meter) {
	if m.Reason.ConnectionLevel() {
		return wait, m
	}
	wait = max(wait, minPause)
	if m.resumeAt.Load() < now {
		m.resumeAt.Store(now + int64(wait))
	}
	return wait, m
}

// meters returns the meters of one rate, with the buckets of old ones of the
// same name.
func meters(old []Meter, r PublishRate, names [2]string, reason pulsarwire.Reason, now int64) []Meter {
	var out []Meter
	for i, perSecond := range [2]float64{r.Messages, r.Bytes / byteUnit} {
		if !(perSecond > 0) {
			continue
		}
		rate := limiter.Rate{PerSecond: perSecond, BurstSeconds: r.BurstSeconds, QueueDepth: debtRoom}
		if j := slices.IndexFunc(old, func(m Meter) bool { return m.Limit == names[i] }); j >= 0 {
			if old[j].bucket.Rate() != rate {
				old[j].bucket.SetRate(rate, now)
				old[j].resumeAt.Store(0)
			}
			out = append(out, old[j])
			continue
		}
		out = append(out, Meter{
			bucket: limiter.NewBucket(rate, now), bytes: i == 1, Limit: names[i], Reason: reason, resumeAt: new(atomic.Int64),
		})
	}
	return out
}
