package history

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/limiter"
)

const (
	// maxChanges is how many changes of one limit are kept.
	maxChanges = 20
	// maxHistories is of how many partitions of an ingress they are kept.
	maxHistories = 2000
	// remeasured is by how much, as a share, the latency without load must move
	// to have been learned anew.
	remeasured = 0.1
)

// Change is one time that a limit moved. It is seen once a second: of several
// moves within one, the sum.
type Change struct {
	At       time.Time
	From, To int
	Why      string // a word of the algorithm's; "" = it does not tell
	By       string // what changed it otherwise, such as an override; "" = that is not known
}

// Baseline is the latency without load, as a limit believes it.
type Baseline struct {
	RTT      time.Duration // 0 = unknown
	Learned  time.Time     // when it was last seen to move
	InFlight int           // requests in flight then
	Kept     bool          // learned before the limit began, in an earlier life of the process or of the ingress
}

// A Learned baseline, and of which partition.
type Learned struct {
	Ingress, Partition string
	Key                bool // as in [limiter.PartitionStatus]
	Baseline           Baseline
}

// Baselines returns what the limits believe now: of each ingress the partitions
// that are asked most first.
func (b *Book) Baselines() (all []Learned) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.ingresses {
		var known []*partition
		for p := range r.roll.all() {
			if p.base.RTT > 0 {
				known = append(known, p)
			}
		}
		slices.SortFunc(known, func(p, q *partition) int {
			return cmp.Or(cmp.Compare(q.active, p.active), cmp.Compare(p.last.Name, q.last.Name))
		})
		for _, p := range known {
			l := Learned{name, p.last.Name, p.last.Key, p.base}
			l.Baseline.RTT = p.last.BaseRTT
			all = append(all, l)
		}
	}
	return all
}

// Explanation says why a limit is what it is.
type Explanation struct {
	Ingress, Partition string
	Text               string // some sentences
	Limit, InFlight    int
	Baseline           Baseline
	Changes            []Change // the newest first
}

// whys words why a limit moved.
var whys = map[string]string{ //nolint:gochecknoglobals // a table
	"room":       "it was needed and nothing spoke against more",
	"demand":     "requests were refused while nothing waited at the backend",
	"busy":       "the backend turned out to do more",
	"queue":      "requests waited at the backend",
	"unused":     "much less was in flight than it allowed",
	"drops":      "the backend failed or refused",
	"timeouts":   "answers were slower than the target",
	"drain":      "it was lowered for a moment, to measure the latency without a queue",
	"slower":     "the latency without a queue is not what it was",
	"departures": "callers left before they were answered",
	"reset":      "what it was computed from was no number, so that it began again",
	whyFallback:  "the clock could not be trusted",
	whyTrusted:   "the clock could be trusted again",
	"fleet":      "its group of gates shares one limit out by who is asked how much",
}

// Limits are fixed while the clock cannot be trusted, whatever their algorithms say.
const (
	whyFallback = "fallback"
	whyTrusted  = "trusted"
)

// Words returns what a word of an algorithm's means, "" for an unknown one.
func Words(why string) string { return whys[why] }

// ChangeCount is how often limits moved for one reason.
type ChangeCount struct {
	Ingress, Partition, Why string // the partition as metrics name it
	Count                   uint64
}

// LimitChanges returns how often limits moved, as far as it was seen.
func (b *Book) LimitChanges() (all []ChangeCount) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for name, r := range b.ingresses {
		for key, n := range r.moved {
			all = append(all, ChangeCount{name, key[0], key[1], n})
		}
	}
	slices.SortFunc(all, func(a, b ChangeCount) int {
		return strings.Compare(a.Ingress+"\x00"+a.Partition+"\x00"+a.Why, b.Ingress+"\x00"+b.Partition+"\x00"+b.Why)
	})
	return all
}

// watchLimit notes what happened to a partition's limit since the last reading.
func (r *record) watchLimit(now time.Time, p *partition, g *limiter.Brief) {
	if g.BaseRTT > 0 && moved(p.base.RTT, g.BaseRTT) {
		before := p.base.RTT
		p.base = Baseline{RTT: g.BaseRTT, Learned: now, InFlight: g.InFlight}
		if kept, ok := r.kept(g); ok && before == 0 {
			p.usual = float64(kept.RTT) // also when it is another now: that may be a brown-out
			if !moved(kept.RTT, g.BaseRTT) {
				p.base, p.base.Kept = kept, true
			}
		}
	}
	if p.first.IsZero() {
		p.first = now
		return
	}
	if g.Limit == p.last.Limit {
		return
	}
	label := g.Name
	if g.Key {
		label = limiter.DefaultPartition
	}
	change := Change{At: now, From: p.last.Limit, To: g.Limit, Why: g.Why}
	if pinned := r.pin(g); pinned != "" {
		change.Why, change.By = "", pinned
	} else if n := len(p.changes); n > 0 && strings.HasPrefix(p.changes[n-1].By, pinnedBy) {
		change.Why, change.By = "", "as the "+p.changes[n-1].By+" has ended"
	} else if r.status.Fallback {
		change.Why = whyFallback
	} else if r.fellBack {
		change.Why = whyTrusted
	}
	why := change.Why
	if why == "" {
		why = "configured"
	}
	if r.moved == nil {
		r.moved = map[[2]string]uint64{}
	}
	r.moved[[2]string{label, why}]++
	if p.changes == nil {
		if r.histories >= maxHistories {
			return
		}
		r.histories++
	}
	p.changes = append(p.changes, change)
	if len(p.changes) > maxChanges {
		p.changes = slices.Delete(p.changes, 0, 1)
	}
}

// pinnedBy is how the words of an override begin.
const pinnedBy = "override"

// pin words the override that sets the limit of a partition; "" = there is none.
func (r *record) pin(g *limiter.Brief) string {
	if r.pinned == nil {
		return ""
	}
	return r.pinned(g.Name, g.Key)
}

// moved reports whether a baseline is another than the one that was learned.
func moved(old, now time.Duration) bool {
	return old == 0 || math.Abs(float64(now-old)) > remeasured*float64(old)
}

// kept returns what was learned of a partition in an earlier life.
func (r *record) kept(g *limiter.Brief) (Baseline, bool) {
	if r.recall == nil {
		return Baseline{}, false
	}
	return r.recall(g.Name, g.Key)
}

// Explain says why the limit of a partition is what it is; false when there is
// no such partition. A client's key comes before a name of the configuration.
func (b *Book) Explain(name, key string, now time.Time) (Explanation, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	r := b.ingresses[name]
	if r == nil {
		return Explanation{}, false
	}
	p := r.roll.find(key, true)
	if p == nil {
		p = r.roll.find(key, false)
	}
	if p == nil {
		return Explanation{}, false
	}
	e := Explanation{Ingress: name, Partition: key, Limit: p.last.Limit, InFlight: p.last.InFlight, Baseline: p.base}
	e.Changes = slices.Clone(p.changes)
	slices.Reverse(e.Changes)
	for i := range e.Changes {
		e.Changes[i].By = b.causeOf(name, &e.Changes[i])
	}
	e.Text = strings.Join(p.sentences(b, r, now), " ")
	return e, true
}

// raises are the words of algorithms for which a limit is raised.
var raises = map[string]bool{"room": true, "demand": true, "busy": true} //nolint:gochecknoglobals // a table

// markNear is how far from a change a mark may be to be its cause: a limit is looked at
// once a second, and a mark is made after what it tells of.
const markNear = 3 * time.Second

// causeOf words what changed a limit other than its algorithm; "" = nothing did, or it is
// not known. b.mu is held.
func (b *Book) causeOf(ingress string, c *Change) string {
	if c.Why != "" || c.By != "" {
		return c.By
	}
	for i := range b.marks {
		m := &b.marks[i]
		if (m.Ingress == "" || m.Ingress == ingress) && m.At.Sub(c.At).Abs() <= markNear {
			return m.Text
		}
	}
	return ""
}

// words words what a limit did and why. b.mu is held.
func (c *Change) words(b *Book, ingress string) (did, cause string) {
	did = fmt.Sprintf("raised from %d to %d", c.From, c.To)
	if c.To < c.From {
		did = fmt.Sprintf("lowered from %d to %d", c.From, c.To)
	}
	by := b.causeOf(ingress, c)
	switch words := Words(c.Why); {
	case strings.HasPrefix(by, pinnedBy):
		cause = "by " + by
	case strings.HasPrefix(by, "as "):
		cause = by
	case by != "":
		cause = "with a change by hand (" + by + ")"
	case words != "" && c.Why != "fleet" && c.Why != whyFallback && c.Why != whyTrusted && c.Why != "drain" && c.Why != "slower" && raises[c.Why] == (c.To < c.From):
		cause = "in several moves, of which the last was made because " + words
	case words != "":
		cause = "because " + words
	case c.Why != "":
		cause = "(" + c.Why + ")"
	default:
		cause = "for a reason that is not known: no setting was seen to change"
	}
	return did, cause
}

// sentence is a line of sentences that stays the same while nothing happens.
func (p *partition) sentence(b *Book, ingress string, r *record) string {
	text := "It has not moved since it was first seen."
	if n := len(p.changes); n > 0 {
		c := &p.changes[n-1]
		did, cause := c.words(b, ingress)
		text = fmt.Sprintf("It was %s at %s, %s.", did, c.At.UTC().Format(time.TimeOnly), cause)
	}
	if r.status.Fallback {
		text = "The clock cannot be trusted: it is the fixed fallback."
	}
	if p.base.RTT > 0 {
		text += fmt.Sprintf(" Without load the backend takes %s, learned at %s with %d in flight.",
			millis(p.base.RTT), p.base.Learned.UTC().Format("2006-01-02 15:04"), p.base.InFlight)
	}
	return text
}

// sentences words why a limit is what it is.
func (p *partition) sentences(b *Book, r *record, now time.Time) (text []string) {
	g := &p.last
	text = append(text, fmt.Sprintf("The limit of %s is %d, with %d in flight.", g.Name, g.Limit, g.InFlight))
	pinned := r.pin(g)
	if n := len(p.changes); pinned != "" && (n == 0 || p.changes[n-1].By != pinned) {
		text = append(text, "It is set by "+pinned+".")
	}
	if r.status.Fallback {
		text = append(text, "The clock cannot be trusted: it is the fixed fallback.")
	}
	if n := len(p.changes); n > 0 {
		c := &p.changes[n-1]
		did, cause := c.words(b, r.status.Name)
		text = append(text, fmt.Sprintf("It was %s %s ago, %s.", did, age(now.Sub(c.At)), cause))
	} else {
		text = append(text, fmt.Sprintf("It has not moved for %s, since it was first seen.", age(now.Sub(p.first))))
	}
	if p.base.RTT > 0 {
		when := ""
		if p.base.Kept {
			when = ", before this limit began, and kept in the state file"
		}
		text = append(text, fmt.Sprintf("Without load the backend takes %s: learned %s ago, with %d in flight%s.",
			millis(p.base.RTT), age(now.Sub(p.base.Learned)), p.base.InFlight, when))
		if usual := time.Duration(p.usual); usual > 0 && p.base.RTT > usual+usual/2 {
			text = append(text, fmt.Sprintf("On calm days it takes %s.", millis(usual)))
		}
	}
	if total := r.status.Total; total > 0 && r.status.InFlight >= total {
		text = append(text, fmt.Sprintf("The total of %d %s over all partitions is used up, and binds before it.", total, plural(total, "permit")))
	}
	if p.refused > least && r.pace.refused > least { // else it was refused a moment ago
		refused := number(p.refused) + "/s are refused"
		if cause, known := p.cause(); known {
			refused += ": " + r.nameOf(cause, g.Name)
		}
		text = append(text, refused+".")
	}
	if r.elsewhere != nil {
		if told := r.elsewhere(g.Name, g.Key); told != "" {
			text = append(text, "The files of gates differ: "+told+".")
		}
	}
	return text
}
