package h2

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

const (
	// tableSize is what is kept of a client's fields for it to refer to, in bytes.
	tableSize = 4 << 10
	// fieldRoom is what MaxHeader leaves out: each field counts for 32 bytes more than
	// it has (RFC 9113, section 6.5.2), of which the usual ones are forgiven.
	fieldRoom = 10 * 32
	// farewell is how long the end of a session waits for its client, and lull for how
	// long nothing comes before that is taken for its end.
	lastRefusals = time.Second
	lull         = lastRefusals / 4
	// maxFarewell bounds what is read away meanwhile, in bytes.
	maxLastRefusals = 256 << 10
)

// Session is one connection that speaks HTTP/2. One goroutine reads, see
// [Session.Run], and one writes; requests that are not refused at once have one
// each.
type Session struct {
	net.Conn
	s      *Server
	tls    *tls.ConnectionState // nil = none
	remote string               // address of the client
	began  time.Time
	work   sync.WaitGroup // goroutines of requests, and the one that writes
	framer *http2.Framer  // its writing half belongs to who holds mu

	frameHandler

	mu sync.Mutex // guards the fields below; never held across a wait
	activeStreams
	earlyAnswers
	receiveWindow
	frameOutput
}

// hearing is what the goroutine that reads knows of a session: nobody else touches
// it.
type frameHandler struct {
	ss     *Session
	inlet  frameInput
	fields fields // the block of them that is being read
	calm   floodBudget
}

// newSession returns a session over c.
func newSession(s *Server, c net.Conn, state *tls.ConnectionState, early []byte) *Session {
	ss := &Session{Conn: c, s: s, tls: state, remote: c.RemoteAddr().String(), began: time.Now()}
	ss.activeStreams.begin(ss.began)
	ss.granted = sessionWindow
	ss.frameHandler.ss = ss
	ss.inlet.begin(ss, early)
	ss.frameOutput.begin(ss)
	ss.calm.begin(ss.began)
	ss.framer = http2.NewFramer(framerWriter{&ss.frameOutput}, &ss.inlet)
	ss.earlyAnswers.begin(ss.framer, s.o.Streams)
	ss.framer.SetReuseFrames()
	ss.framer.SetMaxReadFrameSize(usualFrame)
	ss.fields.decoder = hpack.NewDecoder(tableSize, ss.fields.take)
	return ss
}

// maxFields returns how long the fields of a request may be, in bytes as they are
// counted.
func (ss *Session) maxFields() int { return ss.s.bounds.Load().MaxHeader + fieldRoom }

// Run serves the session to its end, and closes the connection.
func (ss *Session) Run() {
	defer func() {
		if p := recover(); p != nil { // of who decides
			ss.s.o.Log.Error("a session of HTTP/2 panicked", slog.String("ingress", ss.s.o.Name),
				slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
		ss.end()
	}()
	ss.work.Go(ss.write)
	if ss.s.resting.Load() {
		ss.Retire()
	}
	for err := ss.greet(); ; err = ss.next() {
		if err != nil && !ss.goesOn(err) {
			return
		}
	}
}

// greet says what the client may do, and reads how it begins.
func (h *frameHandler) greet() error {
	if !isAdequate(h.ss.tls) {
		return http2.ConnectionError(http2.ErrCodeInadequateSecurity)
	}
	h.ss.mu.Lock()
	_ = h.ss.framer.WriteSettings( // to a buffer, as everything
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(h.ss.s.o.Streams)},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: uint32(h.ss.maxFields())},
	)
	_ = h.ss.framer.WriteWindowUpdate(0, sessionWindow-usualWindow)
	h.ss.kickLocked()
	h.ss.mu.Unlock()
	var preface [len(http2.ClientPreface)]byte
	if _, err := io.ReadFull(&h.inlet, preface[:]); err != nil {
		return err
	}
	if string(preface[:]) != http2.ClientPreface {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	frame, err := h.ss.framer.ReadFrame()
	if err != nil {
		return err
	}
	first, ok := frame.(*http2.SettingsFrame)
	if !ok || first.IsAck() {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return h.takeSettings(first)
}

// next reads a frame and does what it says.
func (h *frameHandler) next() error {
	h.inlet.atFrame(h.fields.isOpen())
	head, err := h.ss.framer.ReadFrameHeader()
	if err != nil {
		return err
	}
	h.inlet.within(head.Type)
	frame, err := h.ss.framer.ReadFrameForHeader(head)
	if err == nil {
		return h.take(frame)
	}
	if of, ok := errors.AsType[http2.StreamError](err); ok && (head.Type == http2.FrameHeaders || of.StreamID > h.ss.last) {
		return http2.ConnectionError(of.Code) // its fields were not read, to which others may refer; or there is no stream
	}
	return err
}

// goesOn handles an error and reports whether the session goes on.
func (h *frameHandler) goesOn(err error) bool {
	h.ss.mu.Lock()
	defer h.ss.mu.Unlock()
	if of, ok := errors.AsType[http2.StreamError](err); ok {
		h.ss.resetLocked(of.StreamID, of.Code)
		if h.calm.spend(costReset) {
			return true
		}
		err = errTooMuch
	}
	code, ok := errors.AsType[http2.ConnectionError](err)
	if errors.Is(err, http2.ErrFrameTooLarge) {
		code, ok = http2.ConnectionError(http2.ErrCodeFrameSize), true
	}
	if ok {
		h.ss.said = true
		_ = h.ss.framer.WriteGoAway(h.ss.last, http2.ErrCode(code), nil)
	}
	return false
}

// end ends the session: whoever still works for it learns that the client has left.
func (ss *Session) end() {
	ss.mu.Lock()
	for _, st := range ss.streams {
		ss.closeStreamLocked(st, true)
		st.leaveLocked()
	}
	told := ss.said
	ss.closeLocked()
	ss.mu.Unlock()
	if told {
		ss.partFrom()
	}
	_ = ss.Close()
	ss.work.Wait()
	ss.s.open.Remove(ss)
}

// partFrom waits until what was said last has arrived: what a client sends to a
// socket that is closed makes it lose what it has not read.
func (ss *Session) partFrom() {
	until := time.Now().Add(lastRefusals)
	late := time.AfterFunc(lastRefusals, func() { _ = ss.Close() })
	defer late.Stop()
	<-ss.mute
	if half, ok := ss.Conn.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		return
	}
	var buf [1 << 10]byte
	for left := maxLastRefusals; left > 0; {
		if ss.SetReadDeadline(earlier(until, time.Now().Add(lull))) != nil {
			return
		}
		n, err := ss.Read(buf[:])
		if left -= n; err != nil {
			return
		}
	}
}

// Close cuts the session off. TLS would take its time for a farewell.
func (ss *Session) Close() error {
	if secured, ok := ss.Conn.(*tls.Conn); ok {
		return secured.NetConn().Close()
	}
	return ss.Conn.Close()
}
