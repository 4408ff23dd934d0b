package admin

import (
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/httpjson"
)

// Bounds of the stream.
const (
	eventInterval = time.Second
	eventTimeout  = 5 * time.Second // for a reader to take one event
)

// seats are the places of readers of GET /v1/events.
type eventReaders struct {
	bound   int64
	readers atomic.Int64
}

// join takes a place among the readers.
func (s *eventReaders) join() bool {
	if s.readers.Add(1) > s.bound {
		s.leave()
		return false
	}
	return true
}

// leave gives the place back.
func (s *eventReaders) leave() { s.readers.Add(-1) }

// events streams the status as server-sent events: the whole at once, then once
// per second what changed. Both are worded once for all readers. A reader that does not take an event within 5 s is
// cut off; it reconnects and begins anew.
func (s *readHandlers) events(w http.ResponseWriter, r *http.Request) {
	if !s.seats.join() {
		w.Header().Set("Retry-After", "5")
		httpjson.Fail(w, http.StatusServiceUnavailable, "as many readers as may be are connected: "+strconv.FormatInt(s.seats.bound, 10))
		return
	}
	defer s.seats.leave()
	h := w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	ticker := time.NewTicker(eventInterval)
	defer ticker.Stop()
	var before *statusdoc.Frame
	for {
		turned := s.cache.Next()
		f, err := s.cache.Frame(time.Now())
		if err != nil || f != before && sendEvent(w, f, before) != nil {
			return
		}
		before = f
		select {
		case <-turned:
		case <-ticker.C:
		case <-r.Context().Done():
			return
		case <-s.stopping:
			return
		}
	}
}

// sendEvent writes one event.
func sendEvent(w http.ResponseWriter, f, before *statusdoc.Frame) error {
	kind, data := "status", f.Plain()
	if before != nil {
		var err error
		if data, err = f.Delta(before); err != nil {
			return err
		}
		kind = "delta"
	}
	httpjson.Extend(w, eventTimeout)
	message := append([]byte("event: "+kind+"\ndata: "), data...)
	if _, err := w.Write(append(message, "\n\n"...)); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}
