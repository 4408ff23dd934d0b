package admin

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
	"github.com/admitd/admitd/vitals"
)

const (
	// frameAge is for how long one reading of the daemon is shared by all who
	// look.
	frameAge = time.Second
	// lateFrame is how old a reading may become that the pulse should have
	// replaced.
	lateFrame = 3 * frameAge
	// manyPartitions is from how many on nobody has them read before the pulse does.
	manyPartitions = 2000
	// listedKeys is how many clients' keys of an ingress are told unless more
	// are asked for: those that are asked most.
	listedKeys = 100
)

// press makes what readers of the status are given (ADR 25): one frame a second, however
// many they are. What the pulse read is used again, so that a reader costs no
// reading of all partitions. It is safe for concurrent use.
type press struct {
	state   State
	book    *vitals.Book
	tag     func(ingress string) string // of its settings
	pulsing atomic.Bool                 // somebody calls beat once a second

	mu     sync.Mutex // guards the fields below; held while a frame is made
	taken  Snapshot   // the last reading
	at     time.Time  // of it; zero = there is none that may be told
	asked  time.Time  // when one was read for somebody who asked
	worded bool       // last says what was taken
	last   *frame     // nil = none was made yet
	made   uint64     // frames
	turned chan struct{}
}

// frame is one status, worded once for all who ask. It never changes, but for
// what mu guards.
type frame struct {
	number uint64
	status status.Document                       // without partitions
	rows   map[string]map[string]json.RawMessage // by ingress, by partition
	order  map[string][]string                   // of the rows
	plain  []byte                                // the whole of it

	mu     sync.Mutex // guards the fields below; held while one caller words them
	packed []byte     // plain, compressed
	deltas map[uint64][]byte
}

// beat takes the reading of this second, and wakes who waits for it.
func (p *press) beat(now time.Time) {
	snapshot := p.state.Snapshot("", limiter.StatusOptions{Partitions: -1})
	all := make([]vitals.Reading, 0, len(snapshot.Ingresses))
	for i := range snapshot.Ingresses {
		in := &snapshot.Ingresses[i]
		if in.Askers != nil {
			in.Askers.Turn(now)
		}
		r := vitals.Reading{Name: in.Name, Gate: in.Gate, Partitions: in.Glances, Backends: in.Backends, Recall: in.Recall, Source: in.Source}
		if in.Latencies != nil {
			r.Latencies = in.Latencies()
		}
		if in.Own != nil {
			r.Own = in.Own()
		}
		all = append(all, r)
	}
	p.book.Take(now, all)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken, p.at, p.worded = snapshot, now, false
	if p.turned != nil {
		close(p.turned)
		p.turned = nil
	}
}

// next returns a channel that is closed when there is a new reading.
func (p *press) next() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.turned == nil {
		p.turned = make(chan struct{})
	}
	return p.turned
}

// boards returns who counts the askers of an ingress, "" = of every one; nil when
// there is none of that name.
func (p *press) boards(ingress string) map[string]*askers.Board {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.at.IsZero() {
		p.taken, p.at, p.worded = p.state.Snapshot("", limiter.StatusOptions{Partitions: -1}), time.Now(), false
	}
	out := map[string]*askers.Board{}
	for i := range p.taken.Ingresses {
		if in := &p.taken.Ingresses[i]; ingress == "" || in.Name == ingress {
			out[in.Name] = in.Askers
		}
	}
	return out
}

// forget has the next one who asks see what was just changed.
func (p *press) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.at = time.Time{}
}

// fresh returns a frame that is read anew unless somebody asked within age: who
// looks right after something has happened is to see it. With very many partitions
// a second later is soon enough.
func (p *press) fresh(now time.Time, age time.Duration) (*frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pulsing.Load() && p.partitions() <= manyPartitions && now.Sub(p.asked) >= age {
		p.at, p.asked = time.Time{}, now
	}
	return p.frameLocked(now)
}

// freshOne is [press.fresh] for who looks at one ingress: the fewer partitions there
// are to be read, the fresher it is.
func (p *press) freshOne(now time.Time) (*frame, error) {
	p.mu.Lock()
	n := p.partitions()
	p.mu.Unlock()
	return p.fresh(now, min(time.Duration(n)*50*time.Microsecond, frameAge))
}

// partitions counts those of all ingresses. p.mu is held.
func (p *press) partitions() (n int) {
	for i := range p.taken.Ingresses {
		n += p.taken.Ingresses[i].Gate.PartitionCount
	}
	return n
}

// frame returns the present frame: what the pulse read last.
func (p *press) frame(now time.Time) (*frame, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.frameLocked(now)
}

// frameLocked is [press.frame]. p.mu is held.
func (p *press) frameLocked(now time.Time) (*frame, error) {
	most := frameAge
	if p.pulsing.Load() {
		most = lateFrame
	}
	if p.at.IsZero() || now.Sub(p.at) >= most {
		p.taken, p.at, p.worded = p.state.Snapshot("", limiter.StatusOptions{Partitions: -1}), now, false
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
func (p *press) make() (*frame, error) {
	s := p.taken
	s.Ingresses = slices.Clone(s.Ingresses)
	for i := range s.Ingresses {
		in := &s.Ingresses[i]
		in.ETag = p.tag(in.Name)
		if in.Rows != nil {
			in.Gate.Partitions = append(slices.Clip(in.Gate.Partitions), in.Rows(p.choose(in.Name), listedKeys)...)
		}
	}
	p.made++
	f := &frame{
		number: p.made, status: newStatus(&s, p.at, p.book), deltas: map[uint64][]byte{},
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
func (p *press) choose(ingress string) []string {
	ranked := p.book.Busiest(ingress, 2*listedKeys)
	var before map[string]json.RawMessage
	if p.last != nil {
		before = p.last.rows[ingress]
	}
	chosen := slices.Clone(ranked[:min(len(ranked), listedKeys/2)])
	for _, key := range ranked {
		if before[key] != nil {
			chosen = append(chosen, key)
		}
	}
	return append(append(chosen, ranked...), slices.Sorted(maps.Keys(before))...)
}

// event is what a reader is sent: the whole status first ("status"), then what
// changed since the event before ("delta"). An ingress that is not listed
// exists no more.
type event struct {
	status.Document

	Ingresses []eventIngress `json:"ingresses"`
}

type eventIngress struct {
	status.Ingress

	Partitions []json.RawMessage `json:"partitions"`     // new or changed
	Gone       []string          `json:"gone,omitempty"` // names of partitions that are listed no more
}

// since returns what changed since before; everything when before is nil.
func (f *frame) since(before *frame) event {
	e := event{Document: f.status, Ingresses: make([]eventIngress, 0, len(f.status.Ingresses))}
	for i := range f.status.Ingresses {
		in := eventIngress{Ingress: f.status.Ingresses[i], Partitions: []json.RawMessage{}}
		var old map[string]json.RawMessage
		if before != nil {
			old = before.rows[in.Name]
		}
		for _, name := range f.order[in.Name] {
			if row := f.rows[in.Name][name]; !bytes.Equal(row, old[name]) {
				in.Partitions = append(in.Partitions, row)
			}
		}
		for name := range old {
			if _, still := f.rows[in.Name][name]; !still {
				in.Gone = append(in.Gone, name)
			}
		}
		e.Ingresses = append(e.Ingresses, in)
	}
	return e
}

// delta words what changed since before, once for all who saw that last.
func (f *frame) delta(before *frame) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.deltas[before.number]; ok {
		return b, nil
	}
	b, err := json.Marshal(f.since(before))
	if err == nil {
		f.deltas[before.number] = b
	}
	return b, err
}

// whole returns everything, and compressed if that is asked for and worth it.
func (f *frame) whole(pack bool) (plain, packed []byte) {
	if !pack || len(f.plain) < worthPacking {
		return f.plain, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.packed == nil {
		f.packed = compress(f.plain)
	}
	return f.plain, f.packed
}

// of words one ingress; false when there is none of that name.
func (f *frame) of(name string) (event, bool) {
	e := f.since(nil)
	e.Ingresses = slices.DeleteFunc(e.Ingresses, func(in eventIngress) bool { return in.Name != name })
	e.Shadow = slices.DeleteFunc(slices.Clone(e.Shadow), func(c status.Candidate) bool { return c.Ingress != name })
	return e, len(e.Ingresses) > 0
}
