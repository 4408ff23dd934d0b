package h2

import (
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

const (
	// outletSize is how much may wait to be sent before bodies wait, in bytes.
	outletSize = 64 << 10
	// brim is how much may before nothing more is read from the client, in bytes.
	brim = 4 * outletSize
	// sendAtOnce is how much is sent without waiting for more, in bytes.
	sendAtOnce = outletSize / 4
	// piece is how much the client has to take within StreamIdle, in bytes.
	piece = 32 << 10
	// usualFrame is the largest frame that everybody takes, less its head, in bytes.
	usualFrame = 16 << 10
)

// frameOutput is what is to be sent, by all streams of a session. What they say while a
// write is under way goes out in the next.
type frameOutput struct {
	ss     *Session
	out    []byte // what is to be sent next
	spare  []byte // for what is to be sent behind it
	some   *sync.Cond
	awake  bool // the goroutine that writes runs, or is about to
	silent bool // nothing more will be said
	failed error
	less   *sync.Cond    // out has become shorter
	mute   chan struct{} // closed when nothing is written any more
	until  time.Time     // the deadline that is set; for who writes

	window  int64     // bytes of bodies that the client takes, of all streams
	initial int32     // of one that begins
	waiting []*stream // for the session's window, or for room, in turn
	stalled int       // streams that wait for either, or for a window of their own
	frames  uint64    // of bodies, ever
	indexed bool      // the client was told that it need not remember fields
	earned  int       // of the client's patience, by taking what is sent
}

// begin makes it that of a session.
func (o *frameOutput) begin(ss *Session) {
	o.ss = ss
	o.some, o.less, o.mute = sync.NewCond(&ss.mu), sync.NewCond(&ss.mu), make(chan struct{})
	o.window, o.initial = usualWindow, usualWindow
}

// framerWriter is what the framer writes to, for who holds mu.
type framerWriter struct{ o *frameOutput }

// Write implements [io.Writer].
func (p framerWriter) Write(b []byte) (int, error) {
	p.o.out = append(p.o.out, b...)
	return len(b), nil
}

// kickLocked has what is there sent.
func (o *frameOutput) kickLocked() {
	if !o.awake && (len(o.out) > 0 || o.silent) {
		o.awake = true
		o.some.Signal()
	}
}

// closeLocked ends the writing, once what is there was sent.
func (o *frameOutput) closeLocked() {
	o.silent = true
	o.kickLocked()
	o.less.Broadcast()
}

// write sends what there is to send, to the end of the session.
func (o *frameOutput) write() {
	defer close(o.mute)
	o.ss.mu.Lock()
	defer o.ss.mu.Unlock()
	for o.failed == nil {
		if len(o.out) > 0 {
			b := o.out
			o.out, o.spare = o.spare[:0], nil
			o.ss.mu.Unlock()
			err := o.put(b)
			o.ss.mu.Lock()
			o.spare, o.failed = b[:0], err
			o.less.Broadcast()
			o.passOnLocked()
			continue
		}
		if o.silent {
			return
		}
		o.awake = false
		o.some.Wait()
		if len(o.out) < sendAtOnce { // who else is about to say something may join
			o.ss.mu.Unlock()
			runtime.Gosched()
			o.ss.mu.Lock()
		}
	}
	o.less.Broadcast()
	_ = o.ss.Close() // who reads notices
}

// put writes b, of which the client takes each piece in time.
func (o *frameOutput) put(b []byte) error {
	patience := o.ss.s.bounds.Load().StreamIdle
	for part := range slices.Chunk(b, piece) {
		if until := time.Now().Add(patience); until.Sub(o.until) > min(time.Second, patience/8) {
			o.until = until
			if err := o.ss.SetWriteDeadline(until); err != nil {
				return err
			}
		}
		if _, err := o.ss.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// thin gives buffers up that are not in use.
func (o *frameOutput) thin() {
	o.ss.mu.Lock()
	defer o.ss.mu.Unlock()
	if len(o.out) == 0 {
		o.out, o.spare = nil, nil
	}
}

// holdBackLocked waits while more is to be sent than is good: who does not read its
// answers is not read from.
func (o *frameOutput) holdBackLocked() {
	for len(o.out) > brim && o.failed == nil && !o.silent {
		o.kickLocked()
		o.less.Wait()
	}
}

// roomLocked returns how much of bodies may be said now.
func (o *frameOutput) roomLocked() int64 { return min(o.window, int64(outletSize-len(o.out))) }

// passOnLocked wakes who waits for longest, when there is something for it, which
// passes on what it leaves.
func (o *frameOutput) passOnLocked() {
	if len(o.waiting) > 0 && o.roomLocked() > 0 {
		st := o.waiting[0]
		o.waiting = slices.Delete(o.waiting, 0, 1)
		st.writing.wake()
	}
}

// waitLocked waits until more of the body of st may be said, and reports whether that
// was before its deadline.
func (o *frameOutput) waitLocked(st *stream) bool {
	o.kickLocked()
	if st.window > 0 {
		o.waiting = append(o.waiting, st)
	} else { // it may have been its turn
		o.passOnLocked()
	}
	ok := o.stallLocked(st)
	if i := slices.Index(o.waiting, st); i >= 0 { // woken for another reason
		o.waiting = slices.Delete(o.waiting, i, i+1)
	}
	return ok
}

// appendBlockLocked appends a block of fields, in as many frames as it takes.
func (o *frameOutput) appendBlockLocked(id uint32, block []byte, last bool) {
	if !o.indexed { // what is remembered, nothing, may be less than the client wants to hear of
		o.indexed = true
		block = append([]byte{resize}, block...)
	}
	kind, flags := http2.FrameHeaders, http2.Flags(0)
	if last {
		flags = http2.FlagHeadersEndStream
	}
	for len(block) > usualFrame {
		o.out = append(appendFrame(o.out, usualFrame, kind, flags, id), block[:usualFrame]...)
		block, kind, flags = block[usualFrame:], http2.FrameContinuation, 0
	}
	o.out = append(appendFrame(o.out, len(block), kind, flags|http2.FlagHeadersEndHeaders, id), block...)
}

// appendDataLocked appends a frame of a body, for which there is room.
func (o *frameOutput) appendDataLocked(id uint32, data []byte, last bool) {
	var flags http2.Flags
	if last {
		flags = http2.FlagDataEndStream
	}
	o.out = append(appendFrame(o.out, len(data), http2.FrameData, flags, id), data...)
	o.window -= int64(len(data))
	o.earned += worth(len(data))
	o.frames++
}
