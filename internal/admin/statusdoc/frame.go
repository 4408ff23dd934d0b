package statusdoc

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/status"
)

// Frame is one status, worded once for all who ask. It never changes, but for
// what mu guards.
type Frame struct {
	number uint64
	status status.Document                       // without partitions
	rows   map[string]map[string]json.RawMessage // by ingress, by partition
	order  map[string][]string                   // of the rows
	plain  []byte                                // the whole of it

	mu     sync.Mutex // guards the fields below; held while one caller words them
	packed []byte     // plain, compressed
	deltas map[uint64][]byte
}

// Event is what a reader is sent: the whole status first ("status"), then what
// changed since the event before ("delta"). An ingress that is not listed
// exists no more.
type Event struct {
	status.Document

	Ingresses []EventIngress `json:"ingresses"`
}

// EventIngress is an ingress of an [Event].
type EventIngress struct {
	status.Ingress

	Partitions []json.RawMessage `json:"partitions"`     // new or changed
	Gone       []string          `json:"gone,omitempty"` // names of partitions that are listed no more
}

// since returns what changed since before; everything when before is nil.
func (f *Frame) since(before *Frame) Event {
	e := Event{Document: f.status, Ingresses: make([]EventIngress, 0, len(f.status.Ingresses))}
	for i := range f.status.Ingresses {
		in := EventIngress{Ingress: f.status.Ingresses[i], Partitions: []json.RawMessage{}}
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

// Plain returns the whole status as JSON, without a line's end.
func (f *Frame) Plain() []byte { return f.plain[:len(f.plain)-1] }

// Delta words what changed since before, once for all who saw that last.
func (f *Frame) Delta(before *Frame) ([]byte, error) {
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

// Whole returns everything, and compressed if that is asked for and worth it.
func (f *Frame) Whole(pack bool) (plain, packed []byte) {
	if !pack {
		return f.plain, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.packed == nil {
		f.packed = httpjson.Pack(f.plain)
	}
	return f.plain, f.packed
}

// Of words one ingress; false when there is none of that name.
func (f *Frame) Of(name string) (Event, bool) {
	e := f.since(nil)
	e.Ingresses = slices.DeleteFunc(e.Ingresses, func(in EventIngress) bool { return in.Name != name })
	e.Shadow = slices.DeleteFunc(slices.Clone(e.Shadow), func(c status.Candidate) bool { return c.Ingress != name })
	return e, len(e.Ingresses) > 0
}
