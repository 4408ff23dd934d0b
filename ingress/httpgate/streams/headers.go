package streams

import (
	"net/http"

	"golang.org/x/net/http2"
)

// takeHeaders begins a block of fields.
func (ss *Session) takeHeaders(f *http2.HeadersFrame) error {
	id, b := f.StreamID, &ss.fields
	if id%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	b.begin(id, f.StreamEnded(), ss.maxFields())
	if f.HasPriority() && f.Priority.StreamDep == id {
		b.fault = http2.ErrCodeProtocol
	}
	if id > ss.last {
		ss.beginRequest()
	} else {
		ss.beginTrailer()
	}
	return ss.takeFields(f.HeaderBlockFragment(), f.HeadersEnded())
}

// beginRequest has the block be a request, if one more may begin.
func (ss *Session) beginRequest() {
	b := &ss.fields
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.final { // the client has been told
		return
	}
	ss.last = b.id
	most := ss.s.o.Streams
	if len(ss.streams) >= most || ss.running >= 2*most { // of what was reset the work goes on
		b.fault = http2.ErrCodeRefusedStream
	}
	if b.fault == 0 {
		b.st, _ = ss.s.streams.Get().(*stream)
		b.st.begin(ss, b.id)
	}
}

// beginTrailer has the block be what comes behind a body.
func (ss *Session) beginTrailer() {
	b := &ss.fields
	ss.mu.Lock()
	defer ss.mu.Unlock()
	st := ss.streams[b.id]
	switch {
	case st == nil:
		b.more, b.grave = http.Header{}, http2.ErrCodeProtocol
		if cut, known := ss.recallLocked(b.id); known && !cut {
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
func (ss *Session) takeFields(fragment []byte, whole bool) error {
	b := &ss.fields
	if err := b.write(fragment, whole); err != nil || !whole {
		return err
	}
	st := b.st
	b.st = nil
	switch {
	case b.fault != 0:
		return http2.StreamError{StreamID: b.id, Code: b.fault}
	case st != nil:
		return ss.takeRequest(st)
	case b.more != nil:
		return ss.takeTrailer()
	}
	return nil
}

// takeTrailer ends a body.
func (ss *Session) takeTrailer() error {
	b := &ss.fields
	switch {
	case b.grave == http2.ErrCodeStreamClosed, b.grave != 0 && b.wrong: // a request anew
		return http2.ConnectionError(b.grave)
	case b.grave != 0: // the client did not know that the stream is over
		if !ss.calm.spend(costEmpty) {
			return errTooMuch
		}
		return nil
	case b.wrong || b.long:
		return http2.StreamError{StreamID: b.id, Code: http2.ErrCodeProtocol}
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	st := ss.streams[b.id]
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
func (ss *Session) takeRequest(st *stream) error {
	b := &ss.fields
	switch {
	case b.long:
		ss.tooLong(st)
		return nil
	case b.wrong || !st.complete(b.last):
		st.release(ss.s)
		return http2.StreamError{StreamID: b.id, Code: http2.ErrCodeProtocol}
	}
	ss.calm.earn(earnRequest)
	if b.last && st.visit.Takes(&st.r) {
		st.taken = true
		if st.visit.Offer(st, &st.r) && ss.answered(st) {
			st.release(ss.s)
			return nil
		}
	}
	ss.openStream(st)
	go st.serve()
	return nil
}

// tooLong answers a request whose fields are too long.
func (ss *Session) tooLong(st *stream) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	block := appendField(nil, ":status", "431")
	block = appendField(block, "Content-Length", "0")
	ss.appendBlockLocked(st.id, block, true)
	if !ss.fields.last {
		_ = ss.framer.WriteRSTStream(st.id, http2.ErrCodeNo)
	}
	ss.rememberLocked(st.id, !ss.fields.last)
	st.release(ss.s)
}

// answered sends the answer to a request that was refused where it was read, and
// reports whether there was room for it.
func (ss *Session) answered(st *stream) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if n := int64(len(st.document)); n > min(ss.window, int64(ss.initial), usualFrame) {
		return false
	}
	ss.sayRefusalLocked(st)
	ss.rememberLocked(st.id, false)
	ss.idle = ss.inlet.now
	if st.last {
		ss.retireLocked()
	}
	if len(ss.out) > sendAtOnce {
		ss.kickLocked()
		ss.holdBackLocked()
	}
	return true
}
