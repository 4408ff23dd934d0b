package pool

import (
	"math/rand/v2"
	"time"
)

// limitOfAll is what the leader runs: the algorithm, fed with the samples of all
// gates as if they were one.
type limitOfAll struct {
	algorithm Algorithm
	fence     uint64
	gates     int
	last      map[string]Samples // by gate, as of the last exchange
	fed       int64              // monotonic ns until which samples were fed
	skipped   int64              // ns that do not exist for the algorithm
	settling  int64              // until when a change is on its way to the gates
	offered   uint64             // of what was fed
	refused   uint64
}

// maxFed bounds the samples of one exchange that are fed.
const maxFed = 50_000

// lead begins to lead, or goes on: from the limit that the leader before had.
func (w *limitOfAll) lead(l *Limit, b *Board) {
	gates := len(b.Rows)
	if w.algorithm != nil && w.fence == b.Fence && w.gates == gates {
		return
	}
	// Each gate has one permit at least. An algorithm that tries less would take
	// what it sees for the effect of something that did not happen.
	initial := b.Verdict.Limit
	if initial == 0 { // the board has forgotten, and this gate has not
		initial = l.verdict.Limit
	}
	if initial > 0 {
		initial = max(initial, gates)
	}
	*w = limitOfAll{algorithm: l.o.Make(initial, 1, gates), fence: b.Fence, gates: gates, last: map[string]Samples{}}
	if r, ok := w.algorithm.(interface{ Recall(base time.Duration) }); ok && l.verdict.Base > 0 {
		r.Recall(l.verdict.Base)
	}
	if a, ok := w.algorithm.(interface {
		Watch(demand func() (offered, refused uint64))
	}); ok {
		a.Watch(func() (offered, refused uint64) { return w.offered, w.refused })
	}
}

// verdict is what was found.
func (w *limitOfAll) verdict(fence uint64) Verdict {
	v := Verdict{Fence: fence, Limit: max(w.algorithm.Current(), 1)}
	if a, ok := w.algorithm.(interface{ BaseRTT() time.Duration }); ok {
		v.Base = a.BaseRTT()
	}
	return v
}

// feed gives the algorithm what the gates have seen since the last exchange. A
// change of the limit takes until the gates' next exchange to be in force, and
// until the one after that to show: time and samples in between do not exist for
// the algorithm, which takes its changes for immediate.
func (w *limitOfAll) feed(now int64, l *Limit, rows []Row) {
	var news []Samples
	var inFlight, mean float64
	var total uint64
	seen := make(map[string]Samples, len(rows))
	for i := range rows {
		r := &rows[i]
		seen[r.ID] = r.Samples
		old, known := w.last[r.ID]
		if !known {
			continue
		}
		d := r.Samples.since(&old)
		if n := d.count(); n > 0 {
			inFlight += float64(d.Held) / float64(n)
			mean += float64(d.Latency)
			total += n
		} else {
			inFlight += float64(r.Held)
		}
		news = append(news, d)
	}
	w.last = seen
	if w.fed == 0 || now <= w.settling || total > maxFed {
		w.skipped += now - max(w.fed, now-int64(time.Hour))
		if w.fed == 0 {
			w.skipped = 0
		}
		w.fed = now
		return
	}
	before := w.algorithm.Current()
	w.play(l.o.Rand, now, news, max(int(inFlight+0.5), 1))
	w.fed = now
	if after := w.algorithm.Current(); total > 0 && abs(after-before) > before/20 {
		w.settling = now + int64(2*l.o.Interval) + int64(l.o.Interval)/4 + int64(min(mean/float64(total), 1e9))
	}
}

// play feeds samples in random order, spread over the time since the last.
func (w *limitOfAll) play(r *rand.Rand, now int64, news []Samples, inFlight int) {
	type sample struct {
		latency time.Duration
		dropped bool
	}
	var all []sample
	var offered, refused uint64
	for i := range news {
		d := &news[i]
		stretch := d.stretch()
		for at := range latencies {
			for range d.Counts[at] {
				all = append(all, sample{latency: max(time.Duration(float64(middleOf(at))*stretch), 1)})
			}
		}
		for range min(d.Dropped, maxFed) {
			all = append(all, sample{latency: time.Millisecond, dropped: true})
		}
		offered, refused = offered+d.Offered, refused+d.Refused
	}
	shuffle := rand.Shuffle
	if r != nil {
		shuffle = r.Shuffle
	}
	shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	from, base, baseRefused := w.fed, w.offered, w.refused
	for i, s := range all {
		part := float64(i+1) / float64(len(all))
		w.offered, w.refused = base+uint64(part*float64(offered)), baseRefused+uint64(part*float64(refused))
		w.algorithm.Observe(from+int64(part*float64(now-from))-w.skipped, s.latency, inFlight, s.dropped)
	}
	w.offered, w.refused = base+offered, baseRefused+refused
}

func abs(n int) int { return max(n, -n) }
