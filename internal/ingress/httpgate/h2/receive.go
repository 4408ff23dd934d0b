package h2

import (
	"math"

	"golang.org/x/net/http2"
)

// take does what a frame says.
func (h *frameHandler) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return h.takeHeaders(f)
	case *http2.ContinuationFrame:
		if !h.calm.spend(costEmpty) {
			return errTooMuch
		}
		return h.takeFields(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return h.takeData(f)
	case *http2.RSTStreamFrame:
		return h.takeReset(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if !h.calm.spend(costFrame) {
		return errTooMuch
	}
	switch f := frame.(type) {
	case *http2.WindowUpdateFrame:
		return h.takeWindow(f)
	case *http2.SettingsFrame:
		return h.takeSettings(f)
	case *http2.PingFrame:
		return h.takePing(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.GoAwayFrame:
		h.ss.mu.Lock()
		defer h.ss.mu.Unlock()
		h.ss.concludeLocked() // it asks for nothing more
	}
	return nil
}

// takeData takes a part of a body.
func (h *frameHandler) takeData(f *http2.DataFrame) error {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	size := int(f.Length)
	if size > h.ss.granted {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	h.ss.granted -= size
	if f.StreamID > h.ss.last {
		h.ss.oweLocked(size)
		return h.ss.unknownLocked()
	}
	h.calm.earn(worth(size))
	if len(f.Data()) == 0 && !f.StreamEnded() && !h.calm.spend(costEmpty) {
		return errTooMuch
	}
	st := h.ss.streams[f.StreamID]
	if st == nil || st.finished {
		h.ss.oweLocked(size)
		if f.StreamEnded() {
			h.ss.leftLocked(f.StreamID)
		}
		if cut, known := h.ss.recallLocked(f.StreamID); st != nil || known && !cut {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
		}
		if !h.calm.spend(costFrame) { // it did not know
			return errTooMuch
		}
		return nil
	}
	h.ss.oweLocked(size - len(f.Data())) // what is there to be longer
	if code := st.arriveLocked(f.Data(), size, f.StreamEnded()); code != http2.ErrCodeNo {
		h.ss.oweLocked(len(f.Data())) // it is not kept
		return http2.StreamError{StreamID: f.StreamID, Code: code}
	}
	return nil
}

// takeWindow lets more be sent.
func (h *frameHandler) takeWindow(f *http2.WindowUpdateFrame) error {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	more := int64(f.Increment)
	if f.StreamID == 0 {
		if h.ss.window += more; h.ss.window > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		h.ss.passOnLocked()
		return nil
	}
	st := h.ss.streams[f.StreamID]
	if f.StreamID > h.ss.last {
		return h.ss.unknownLocked()
	}
	if st == nil {
		return nil
	}
	if st.window += more; st.window > math.MaxInt32 {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeFlowControl}
	}
	st.writing.wake()
	return nil
}

// takeSettings does as the client wishes.
func (h *frameHandler) takeSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if !h.calm.spend(costSweep) {
		return errTooMuch
	}
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	initial := h.ss.initial
	err := f.ForeachSetting(func(s http2.Setting) error {
		if s.ID == http2.SettingInitialWindowSize { // larger frames are of no use, and nothing is remembered or pushed
			initial = int32(min(s.Val, math.MaxInt32))
		}
		return s.Valid()
	})
	if err != nil {
		return err
	}
	_ = h.ss.framer.WriteSettingsAck()
	return h.ss.setInitialLocked(initial)
}

// setInitialLocked sets the windows with which streams begin, and moves those of
// streams that have begun.
func (ss *Session) setInitialLocked(initial int32) error {
	more := int64(initial) - int64(ss.initial)
	if more == 0 {
		return nil
	}
	ss.initial = initial
	for _, st := range ss.streams {
		if st.window += more; st.window > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		st.writing.wake()
	}
	return nil
}

// takePing answers, or takes the answer.
func (h *frameHandler) takePing(f *http2.PingFrame) error {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	switch {
	case !f.IsAck():
		_ = h.ss.framer.WritePing(true, f.Data)
	case f.Data == parting && h.ss.away:
		h.ss.concludeLocked()
	case f.Data == heard:
		h.ss.pingAckedLocked()
	}
	return nil
}

// unknownLocked is what becomes of a frame of a stream that has not begun: nothing, if
// the client could not begin any more.
func (ss *Session) unknownLocked() error {
	if ss.final {
		return nil
	}
	return http2.ConnectionError(http2.ErrCodeProtocol)
}

// takeReset ends a stream of which the client wants nothing more.
func (h *frameHandler) takeReset(f *http2.RSTStreamFrame) error {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	if f.StreamID > h.ss.last {
		return h.ss.unknownLocked()
	}
	h.ss.leftLocked(f.StreamID)
	if st := h.ss.streams[f.StreamID]; st != nil {
		h.ss.closeStreamLocked(st, false)
		st.leaveLocked()
	}
	if !h.calm.spend(costReset) {
		return errTooMuch
	}
	return nil
}
