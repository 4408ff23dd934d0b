package streams

import (
	"math"

	"golang.org/x/net/http2"
)

// take does what a frame says.
func (ss *Session) take(frame http2.Frame) error {
	switch f := frame.(type) {
	case *http2.HeadersFrame:
		return ss.takeHeaders(f)
	case *http2.ContinuationFrame:
		if !ss.calm.spend(costEmpty) {
			return errTooMuch
		}
		return ss.takeFields(f.HeaderBlockFragment(), f.HeadersEnded())
	case *http2.DataFrame:
		return ss.takeData(f)
	case *http2.RSTStreamFrame:
		return ss.takeReset(f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if !ss.calm.spend(costFrame) {
		return errTooMuch
	}
	switch f := frame.(type) {
	case *http2.WindowUpdateFrame:
		return ss.takeWindow(f)
	case *http2.SettingsFrame:
		return ss.takeSettings(f)
	case *http2.PingFrame:
		return ss.takePing(f)
	case *http2.PriorityFrame:
		if f.StreamDep == f.StreamID {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
		}
	case *http2.GoAwayFrame:
		ss.mu.Lock()
		defer ss.mu.Unlock()
		ss.concludeLocked() // it asks for nothing more
	}
	return nil
}

// takeData takes a part of a body.
func (ss *Session) takeData(f *http2.DataFrame) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	size := int(f.Length)
	if size > ss.granted {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	ss.granted -= size
	if f.StreamID > ss.last {
		ss.oweLocked(size)
		return ss.unknownLocked()
	}
	ss.calm.earn(worth(size))
	if len(f.Data()) == 0 && !f.StreamEnded() && !ss.calm.spend(costEmpty) {
		return errTooMuch
	}
	st := ss.streams[f.StreamID]
	if st == nil || st.finished {
		ss.oweLocked(size)
		if f.StreamEnded() {
			ss.leftLocked(f.StreamID)
		}
		if cut, known := ss.recallLocked(f.StreamID); st != nil || known && !cut {
			return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeStreamClosed}
		}
		if !ss.calm.spend(costFrame) { // it did not know
			return errTooMuch
		}
		return nil
	}
	ss.oweLocked(size - len(f.Data())) // what is there to be longer
	if code := st.arriveLocked(f.Data(), size, f.StreamEnded()); code != http2.ErrCodeNo {
		ss.oweLocked(len(f.Data())) // it is not kept
		return http2.StreamError{StreamID: f.StreamID, Code: code}
	}
	return nil
}

// takeWindow lets more be sent.
func (ss *Session) takeWindow(f *http2.WindowUpdateFrame) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	more := int64(f.Increment)
	if f.StreamID == 0 {
		if ss.window += more; ss.window > math.MaxInt32 {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		ss.passOnLocked()
		return nil
	}
	st := ss.streams[f.StreamID]
	if f.StreamID > ss.last {
		return ss.unknownLocked()
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
func (ss *Session) takeSettings(f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	if !ss.calm.spend(costSweep) {
		return errTooMuch
	}
	ss.mu.Lock()
	defer ss.mu.Unlock()
	initial := ss.initial
	err := f.ForeachSetting(func(s http2.Setting) error {
		if s.ID == http2.SettingInitialWindowSize { // larger frames are of no use, and nothing is remembered or pushed
			initial = int32(min(s.Val, math.MaxInt32))
		}
		return s.Valid()
	})
	if err != nil {
		return err
	}
	_ = ss.framer.WriteSettingsAck()
	return ss.setInitialLocked(initial)
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
func (ss *Session) takePing(f *http2.PingFrame) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	switch {
	case !f.IsAck():
		_ = ss.framer.WritePing(true, f.Data)
	case f.Data == parting && ss.away:
		ss.concludeLocked()
	case f.Data == heard:
		ss.heardLocked()
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
func (ss *Session) takeReset(f *http2.RSTStreamFrame) error {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if f.StreamID > ss.last {
		return ss.unknownLocked()
	}
	ss.leftLocked(f.StreamID)
	if st := ss.streams[f.StreamID]; st != nil {
		ss.closeStreamLocked(st, false)
		st.leaveLocked()
	}
	if !ss.calm.spend(costReset) {
		return errTooMuch
	}
	return nil
}
