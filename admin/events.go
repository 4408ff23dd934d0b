package admin

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
	"github.com/admitd/admitd/vitals"
)

// Bounds of the stream.
const (
	eventInterval = time.Second
	// frameAge is how long a frame is shared between readers, so that many of
	// them cost one snapshot per second.
	frameAge     = 500 * time.Millisecond
	eventTimeout = 5 * time.Second // for a reader to take one event
)

// hub makes the frames that readers of GET /v1/events are sent.
type hub struct {
	state State
	book  *vitals.Book
	bound int

	mu      sync.Mutex // guards the fields below
	readers int
	last    *frame
}

// frame is one status, with each partition rendered on its own so that it can
// be compared with the one before. It never changes.
type frame struct {
	at     time.Time
	status status.Document                       // without partitions
	rows   map[string]map[string]json.RawMessage // by ingress, by partition
}

// join takes a place among the readers.
func (h *hub) join() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.readers >= h.bound {
		return false
	}
	h.readers++
	return true
}

// leave gives the place back; the last reader leaves nothing behind.
func (h *hub) leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.readers--
	if h.readers == 0 {
		h.last = nil
	}
}

// frame returns the present frame.
func (h *hub) frame() (*frame, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	if h.last != nil && now.Sub(h.last.at) < frameAge {
		return h.last, nil
	}
	snapshot := h.state.Snapshot("", limiter.StatusOptions{})
	f := &frame{at: now, status: newStatus(&snapshot, now, h.book), rows: map[string]map[string]json.RawMessage{}}
	for i := range f.status.Ingresses {
		in := &f.status.Ingresses[i]
		rows := make(map[string]json.RawMessage, len(in.Partitions))
		for j := range in.Partitions {
			b, err := json.Marshal(&in.Partitions[j])
			if err != nil {
				return nil, err
			}
			rows[in.Partitions[j].Name] = b
		}
		in.Partitions = nil
		f.rows[in.Name] = rows
	}
	h.last = f
	return f, nil
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
	Gone       []string          `json:"gone,omitempty"` // names of partitions that exist no more
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
		for name, row := range f.rows[in.Name] {
			if !bytes.Equal(row, old[name]) {
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

// events streams the status as server-sent events: all of it at once, then once
// per second what changed. A reader that does not take an event within 5 s is
// cut off; it reconnects and begins anew.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	if !s.hub.join() {
		w.Header().Set("Retry-After", "5")
		fail(w, http.StatusServiceUnavailable, "as many readers as may be are connected: "+strconv.Itoa(s.hub.bound))
		return
	}
	defer s.hub.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	ticker := time.NewTicker(eventInterval)
	defer ticker.Stop()
	var before *frame
	for {
		f, err := s.hub.frame()
		if err != nil || s.send(w, f, before) != nil {
			return
		}
		before = f
		select {
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// send writes one event.
func (*Server) send(w http.ResponseWriter, f, before *frame) error {
	kind := "delta"
	if before == nil {
		kind = "status"
	}
	data, err := json.Marshal(f.since(before))
	if err != nil {
		return err
	}
	extend(w, eventTimeout)
	message := append([]byte("event: "+kind+"\ndata: "), data...)
	if _, err := w.Write(append(message, "\n\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
