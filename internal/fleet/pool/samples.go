package pool

import (
	"math"
	"math/bits"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Buckets of latencies: eight per power of two, from a microsecond on.
const (
	subBits   = 3
	octaves   = 27 // to more than a minute
	latencies = octaves << subBits
)

// bucketOf returns the bucket of a latency.
func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 1))
	top := bits.Len64(us) - 1
	if top < subBits {
		return int(us)
	}
	return min((top-subBits+1)<<subBits+int(us>>(top-subBits)&(1<<subBits-1)), latencies-1)
}

// middleOf returns a latency that stands for those of a bucket.
func middleOf(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i) * time.Microsecond
	}
	shift := i>>subBits - 1
	low := uint64(1<<subBits|i&(1<<subBits-1)) << shift
	return time.Duration(low+1<<shift/2) * time.Microsecond
}

// tally counts the samples of one gate since it began. Every field only grows.
type tally struct {
	counts  [latencies]atomic.Uint64 // of those that were not dropped
	latency atomic.Uint64            // ns, summed up over these
	held    atomic.Uint64            // permits in flight at grant, summed up over these
	dropped atomic.Uint64
}

// note counts a sample.
func (t *tally) note(latency time.Duration, inFlight int, dropped bool) {
	if dropped {
		t.dropped.Add(1)
		return
	}
	t.counts[bucketOf(latency)].Add(1)
	t.latency.Add(uint64(max(latency, 0)))
	t.held.Add(uint64(max(inFlight, 0)))
}

// Samples are what a gate has seen since it began.
type Samples struct {
	Counts           map[int]uint64 // by bucket, without zeros
	Latency          uint64         // ns, summed up
	Held             uint64         // permits in flight at grant, summed up
	Dropped          uint64
	Offered, Refused uint64 // requests that asked for a permit, and found none
}

// read copies the counts.
func (t *tally) read() Samples {
	s := Samples{Counts: map[int]uint64{}, Latency: t.latency.Load(), Held: t.held.Load(), Dropped: t.dropped.Load()}
	for i := range t.counts {
		if n := t.counts[i].Load(); n > 0 {
			s.Counts[i] = n
		}
	}
	return s
}

// since returns what was seen after an earlier reading; nothing when that was of
// another gate that bears the same name.
func (s *Samples) since(old *Samples) Samples {
	d := Samples{Counts: map[int]uint64{}}
	for i, n := range s.Counts {
		if n < old.Counts[i] {
			return Samples{}
		}
		if n > old.Counts[i] {
			d.Counts[i] = n - old.Counts[i]
		}
	}
	less := func(a, b uint64) uint64 { return a - min(a, b) }
	d.Latency, d.Held, d.Dropped = less(s.Latency, old.Latency), less(s.Held, old.Held), less(s.Dropped, old.Dropped)
	d.Offered, d.Refused = less(s.Offered, old.Offered), less(s.Refused, old.Refused)
	return d
}

// count returns how many there are that were not dropped.
func (s *Samples) count() (n uint64) {
	for _, c := range s.Counts {
		n += c
	}
	return n
}

// stretch is what the middle of each bucket is multiplied by so that the mean is
// the true one.
func (s *Samples) stretch() float64 {
	var guess float64
	for i, n := range s.Counts {
		guess += float64(middleOf(i)) * float64(n)
	}
	if guess <= 0 {
		return 1
	}
	return float64(s.Latency) / guess
}

// Row is what a gate tells the group of one limit.
type Row struct {
	ID      string
	Share   int     // permits that it goes by
	Want    float64 // permits that it could use
	Held    int     // permits that it holds now
	Samples Samples
}

// String spells the row without its ID.
func (r *Row) String() string {
	var b strings.Builder
	s := &r.Samples
	b.WriteString(strconv.Itoa(r.Share) + " " + strconv.FormatFloat(r.Want, 'f', 3, 64) + " " + strconv.Itoa(r.Held))
	for _, n := range []uint64{s.Latency, s.Held, s.Dropped, s.Offered, s.Refused} {
		b.WriteString(" " + strconv.FormatUint(n, 10))
	}
	b.WriteByte(' ')
	for i := range latencies {
		if n := s.Counts[i]; n > 0 {
			b.WriteString(strconv.Itoa(i) + ":" + strconv.FormatUint(n, 10) + ",")
		}
	}
	return b.String()
}

// ParseRow reads what [Row.String] wrote. Words beyond those are left alone.
func ParseRow(id, text string) (r Row, ok bool) {
	words := strings.Split(text, " ")
	if len(words) < 9 {
		return r, false
	}
	ok = true
	whole := func(word string) uint64 {
		n, err := strconv.ParseUint(word, 10, 63)
		ok = ok && err == nil
		return n
	}
	want, err := strconv.ParseFloat(words[1], 64)
	r = Row{ID: id, Share: int(min(whole(words[0]), 1<<20)), Want: want, Held: int(min(whole(words[2]), 1<<20))}
	s := &r.Samples
	s.Latency, s.Held, s.Dropped, s.Offered, s.Refused = whole(words[3]), whole(words[4]), whole(words[5]), whole(words[6]), whole(words[7])
	s.Counts = map[int]uint64{}
	for pair := range strings.SplitSeq(strings.TrimSuffix(words[8], ","), ",") {
		if i, n, found := strings.Cut(pair, ":"); found {
			s.Counts[int(min(whole(i), latencies-1))] = whole(n)
		}
	}
	return r, ok && err == nil && want >= 0 && !math.IsInf(want, 0)
}
