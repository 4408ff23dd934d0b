package h2

import (
	"net/http"

	"golang.org/x/net/http2"
)

// takeHeaders begins a block of fields.
func (h *frameHandler) takeHeaders(f *http2.HeadersFrame) error {
	id, b := f.StreamID, &h.fields
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	b.begin(id, f.StreamEnded(), h.ss.maxFields())
	if f.HasPriority() && f.Priority.StreamDep == id {
		b.fault = http2.ErrCodeProtocol
	}
	if id > h.ss.last {
		h.beginRequest()
	} else {
		h.beginTrailer()
	}
	return h.takeFields(f.HeaderBlockFragment(), f.HeadersEnded())
}

// beginRequest has the block be a request, if one more may begin.
func (h *frameHandler) beginRequest() {
	b := &h.fields
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	if h.ss.final { // the client has been told
		return
	}
	h.ss.last = b.id
	most := h.ss.s.o.Streams
	if len(h.ss.streams) >= most || h.ss.running >= 2*most { // of what was reset the work goes on
		b.fault = http2.ErrCodeRefusedStream
	}
	if b.fault == 0 {
		b.st, _ = h.ss.s.streams.Get().(*stream)
		b.st.begin(h.ss, b.id)
	}
}

// beginTrailer has the block be what comes behind a body.
func (h *frameHandler) beginTrailer() {
	b := &h.fields
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	st := h.ss.streams[b.id]
	switch {
	case st == nil:
		b.more, b.grave = http.Header{}, http2.ErrCodeProtocol
		if cut, known := h.ss.recallLocked(b.id); known && !cut {
			b.grave = http2.ErrCodeStreamClosed
		}
	case st.finished:
		b.fault = http2.ErrCodeStreamClosed
	case !b.last:
		b.fault = http2.ErrCodeProtocol
	case b.fault == 0:
		b.more = http.Header{}
	}
}

// takeFields reads a part of a block of fields, and does what it says once it is
// whole.
func (h *frameHandler) takeFields(fragment []byte, whole bool) error {
	b := &h.fields
	if err := b.write(fragment, whole); err != nil || !whole {
		return err
	}
	st := b.st
	b.st = nil
	switch {
	case b.fault != 0:
		return http2.StreamError{StreamID: b.id, Code: b.fault}
	case st != nil:
		return h.takeRequest(st)
	case b.more != nil:
		return h.takeTrailer()
	}
	return nil
}

// takeTrailer ends a body.
func (h *frameHandler) takeTrailer() error {
	b := &h.fields
	switch {
	case b.grave == http2.ErrCodeStreamClosed, b.grave != 0 && b.wrong: // a request anew
		return http2.ConnectionError(b.grave)
	case b.grave != 0: // the client did not know that the stream is over
		if !h.calm.spend(costEmpty) {
			return errTooMuch
		}
		return nil
	case b.wrong || b.long:
		return http2.StreamError{StreamID: b.id, Code: http2.ErrCodeProtocol}
	}
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	st := h.ss.streams[b.id]
	if st == nil {
		return nil // it has ended meanwhile
	}
	st.trailer = b.more
	if code := st.arriveLocked(nil, 0, true); code != http2.ErrCodeNo {
		return http2.StreamError{StreamID: b.id, Code: code}
	}
	return nil
}

// takeRequest decides about a request where it is whole, or has somebody do it.
func (h *frameHandler) takeRequest(st *stream) error {
	b := &h.fields
	switch {
	case b.long:
		h.tooLong(st)
		if !h.calm.spend(costReset) {
			return errTooMuch
		}
		return nil
	case b.wrong || !st.complete(b.last):
		st.release(h.ss.s)
		return http2.StreamError{StreamID: b.id, Code: http2.ErrCodeProtocol}
	}
	h.calm.earn(earnRequest)
	if b.last && st.visit.Takes(&st.r) {
		st.taken = true
		if st.visit.Offer(st, &st.r) {
			done, err := h.answered(st)
			if done {
				st.release(h.ss.s)
				return err
			}
		}
	}
	h.ss.openStream(st)
	go st.serve()
	return nil
}

// tooLong answers a request whose fields are too long.
func (h *frameHandler) tooLong(st *stream) {
	h.ss.s.o.Counts.Invalid(http.StatusRequestHeaderFieldsTooLarge)
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	block := appendField(nil, ":status", "431")
	block = appendField(block, "Content-Length", "0")
	h.ss.appendBlockLocked(st.id, block, true)
	if !h.fields.last {
		_ = h.ss.framer.WriteRSTStream(st.id, http2.ErrCodeNo)
	}
	h.ss.rememberLocked(st.id, !h.fields.last)
	st.release(h.ss.s)
}

// answered sends the answer to a request that was refused where it was read, and
// reports whether that is all: there was room for it, or the stream is to be reset
// because it has no window.
func (h *frameHandler) answered(st *stream) (done bool, err error) {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	n := int64(len(st.document))
	switch {
	case n > 0 && h.ss.initial <= 0:
		return true, http2.StreamError{StreamID: st.id, Code: http2.ErrCodeRefusedStream}
	case n > min(h.ss.window, int64(h.ss.initial), usualFrame):
		return false, nil
	}
	h.ss.sayRefusalLocked(st)
	h.ss.rememberLocked(st.id, false)
	h.ss.idle = h.inlet.now
	if st.last {
		h.ss.retireLocked()
	}
	if len(h.ss.out) > sendAtOnce {
		h.ss.kickLocked()
		h.ss.holdBackLocked()
	}
	return true, nil
}
