// Package statusdoc makes what readers of the status are given: a reading of the daemon
// once a second, told to the book of vitals, and worded once for all who look.
package statusdoc

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/limiter"
)

// Bounds of what is told.
const (
	// FrameAge is for how long one reading of the daemon is shared by all who
	// look.
	FrameAge = time.Second
	// lateFrame is how old a reading may become that the pulse should have
	// replaced.
	lateFrame = 3 * FrameAge
	// manyPartitions is from how many on nobody has them read before the pulse does.
	manyPartitions = 2000
	// ListedKeys is how many clients' keys of an ingress are told unless more
	// are asked for: those that are asked most.
	ListedKeys = 100
)

// Cache makes what readers of the status are given (ADR 25): one frame a second, however
// many they are. What the pulse read is used again, so that a reader costs no
// reading of all partitions. It is safe for concurrent use.
type Cache struct {
	read    func(ingress string, o limiter.StatusOptions) Snapshot
	book    *history.Book
	tag     func(ingress string) string // of its settings
	pulsing atomic.Bool                 // somebody calls Beat once a second
	applied time.Time                   // when a configuration was put in force, as Beat read it last

	mu     sync.Mutex // guards the fields below; held while a frame is made
	taken  Snapshot   // the last reading
	at     time.Time  // of it; zero = there is none that may be told
	asked  time.Time  // when one was read for somebody who asked
	worded bool       // last says what was taken
	last   *Frame     // nil = none was made yet
	made   uint64     // frames
	turned chan struct{}
}

// New returns a press that reads the daemon, tells the book, and asks for the ETag
// of an ingress's settings.
func New(read func(ingress string, o limiter.StatusOptions) Snapshot, book *history.Book, tag func(ingress string) string) *Cache {
	return &Cache{read: read, book: book, tag: tag}
}

// pulseInterval is how often the book is told what happens.
const pulseInterval = time.Second

// Pulse reads the daemon once a second, looked at or not, so that there is
// something to say as soon as somebody looks. It reads sums and a glance at each
// partition: 20,000 of them are some milliseconds, in which it steps aside often.
func (p *Cache) Pulse(ctx context.Context) {
	p.pulsing.Store(true)
	defer p.pulsing.Store(false)
	ticker := time.NewTicker(pulseInterval)
	defer ticker.Stop()
	for {
		p.Beat(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Beat takes the reading of this second, and wakes who waits for it. It is called by
// one goroutine; the other methods are safe for concurrent use meanwhile.
func (p *Cache) Beat(now time.Time) {
	snapshot := p.read("", limiter.StatusOptions{Partitions: limiter.NoKeys})
	if applied := snapshot.Config.LastSuccess; !p.applied.IsZero() && !applied.Equal(p.applied) {
		p.book.MarkOnce(applied, "", "configuration reloaded") // by a change of the file
	}
	p.applied = snapshot.Config.LastSuccess
	all := make([]history.Reading, 0, len(snapshot.Ingresses))
	for i := range snapshot.Ingresses {
		in := &snapshot.Ingresses[i]
		if in.TopKeys != nil {
			in.TopKeys.Turn(now)
		}
		r := history.Reading{Name: in.Name, Gate: in.Gate, Partitions: in.Glances, Backends: in.Backends, Connections: in.Connections, Recall: in.Recall, Source: in.Source, Pinned: in.Pinned, Elsewhere: in.Elsewhere, Ungated: in.Ungated}
		if in.Latencies != nil {
			r.Latencies = in.Latencies()
		}
		if in.Own != nil {
			r.Own = in.Own()
		}
		all = append(all, r)
	}
	about := history.Process{Fleet: snapshot.Process.Fleet}
	if snapshot.Process.Delay != nil {
		about.Delay = snapshot.Process.Delay()
	}
	p.book.About(about)
	p.book.Take(now, all)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.at, p.worded = snapshot, now, false
	if p.turned != nil {
		close(p.turned)
		p.turned = nil
	}
}

// Next returns a channel that is closed when there is a new reading.
func (p *Cache) Next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turned == nil {
		p.turned = make(chan struct{})
	}
	return p.turned
}

// Tag returns what changes whenever the settings of an ingress do.
func (p *Cache) Tag(ingress string) string { return p.tag(ingress) }

// Boards returns who counts the askers of an ingress, "" = of every one; nil when
// there is none of that name.
func (p *Cache) Boards(ingress string) map[string]*topkeys.Board {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		p.taken, p.at, p.worded = p.read("", limiter.StatusOptions{Partitions: limiter.NoKeys}), time.Now(), false
	}
	out := map[string]*topkeys.Board{}
	for i := range p.taken.Ingresses {
		if in := &p.taken.Ingresses[i]; ingress == "" || in.Name == ingress {
			out[in.Name] = in.TopKeys
		}
	}
	return out
}

// Forget has the next one who asks see what was just changed.
func (p *Cache) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Time{}
}

// Fresh returns a frame that is read anew unless somebody asked within age: who
// looks right after something has happened is to see it. With very many partitions
// a second later is soon enough.
func (p *Cache) Fresh(now time.Time, age time.Duration) (*Frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulsing.Load() && p.partitions() <= manyPartitions && now.Sub(p.asked) >= age {
		p.at, p.asked = time.Time{}, now
	}
	return p.frameLocked(now)
}

// FreshOne is [Cache.Fresh] for who looks at one ingress: the fewer partitions there
// are to be read, the fresher it is.
func (p *Cache) FreshOne(now time.Time) (*Frame, error) {
	p.mu.Lock()
	n := p.partitions()
	p.mu.Unlock()
	return p.Fresh(now, min(time.Duration(n)*50*time.Microsecond, FrameAge))
}

// partitions counts those of all ingresses. p.mu is held.
func (p *Cache) partitions() (n int) {
	for i := range p.taken.Ingresses {
		n += p.taken.Ingresses[i].Gate.PartitionCount
	}
	return n
}

// Frame returns the present frame: what the pulse read last.
func (p *Cache) Frame(now time.Time) (*Frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frameLocked(now)
}

// frameLocked is [Cache.Frame]. p.mu is held.
func (p *Cache) frameLocked(now time.Time) (*Frame, error) {
	most := FrameAge
	if p.pulsing.Load() {
		most = lateFrame
	}
	if p.at.IsZero() || now.Sub(p.at) >= most {
		p.taken, p.at, p.worded = p.read("", limiter.StatusOptions{Partitions: limiter.NoKeys}), now, false
	}
	if p.last != nil && p.worded {
		return p.last, nil
	}
	f, err := p.make()
	if err == nil {
		p.last, p.worded = f, true
	}
	return f, err
}

// make words the reading. p.mu is held.
func (p *Cache) make() (*Frame, error) {
	s := p.taken
	s.Ingresses = slices.Clone(s.Ingresses)
	for i := range s.Ingresses {
		in := &s.Ingresses[i]
		in.ETag = p.tag(in.Name)
		if in.Rows != nil {
			in.Gate.Partitions = append(slices.Clip(in.Gate.Partitions), in.Rows(p.choose(in.Name), ListedKeys)...)
		}
	}
	p.made++
	f := &Frame{
		number: p.made, status: Words(&s, p.at, p.book), deltas: map[uint64][]byte{},
		rows: map[string]map[string]json.RawMessage{}, order: map[string][]string{},
	}
	for i := range f.status.Ingresses {
		in := &f.status.Ingresses[i]
		rows := make(map[string]json.RawMessage, len(in.Partitions))
		for j := range in.Partitions {
			b, err := json.Marshal(&in.Partitions[j])
			if err != nil {
				return nil, err
			}
			name := in.Partitions[j].Name
			rows[name] = b
			f.order[in.Name] = append(f.order[in.Name], name)
		}
		in.Partitions = nil
		f.rows[in.Name] = rows
	}
	var err error
	f.plain, err = json.Marshal(f.since(nil))
	f.plain = append(f.plain, '\n')
	return f, err
}

// choose returns the keys that are to be listed, the ones that matter most
// first. Who was listed before keeps the place while half a place is left: rows
// that come and go cannot be read. p.mu is held.
func (p *Cache) choose(ingress string) []string {
	ranked := p.book.Busiest(ingress, 2*ListedKeys)
	var before map[string]json.RawMessage
	if p.last != nil {
		before = p.last.rows[ingress]
	}
	chosen := slices.Clone(ranked[:min(len(ranked), ListedKeys/2)])
	for _, key := range ranked {
		if before[key] != nil {
			chosen = append(chosen, key)
		}
	}
	return append(append(chosen, ranked...), slices.Sorted(maps.Keys(before))...)
}
