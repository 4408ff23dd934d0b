package h2

import (
	"errors"
	"os"
	"time"

	"golang.org/x/net/http2"
)

const (
	// inletSize is how much is read at once, in bytes.
	inletSize = 16 << 10
	// thinInlet is how much it is of a session that has been silent for a while.
	thinInlet = 256
	// soon is how long a session is silent before it gives its buffers up.
	soon = 2 * time.Second
)

// frameInput reads for the framer: what is there at once, mostly many frames.
type frameInput struct {
	ss    *Session
	buf   []byte
	left  []byte    // of buf: what was read and not taken
	now   time.Time // when something came last
	until time.Time // the deadline that is set
	part  bool      // something has begun that is to come to its end
	slow  bool      // it is a body, for which clients may take longer
	since time.Time // when that was waited for first; zero = it was not
}

// begin makes it that of a session.
func (in *frameInput) begin(ss *Session, early []byte) {
	in.ss, in.buf, in.now, in.part = ss, make([]byte, max(inletSize, len(early))), ss.began, true
	in.left = in.buf[:copy(in.buf, early)]
}

// atFrame says that a frame begins; of a block of fields that is open another one has
// to.
func (in *frameInput) atFrame(open bool) {
	in.slow = false
	if !open {
		in.part, in.since = false, time.Time{}
	}
}

// within says of what kind the frame is whose rest is to come.
func (in *frameInput) within(kind http2.FrameType) { in.slow = kind == http2.FrameData }

// Read implements [io.Reader].
func (in *frameInput) Read(p []byte) (int, error) {
	if len(in.left) == 0 {
		if err := in.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, in.left)
	in.left, in.part = in.left[n:], true
	return n, nil
}

// fill waits for more.
func (in *frameInput) fill() error {
	for {
		now := time.Now()
		if err := in.arm(now); err != nil {
			return err
		}
		n, err := in.ss.Read(in.buf)
		if n > 0 {
			in.left, in.now = in.buf[:n], time.Now()
			if n == len(in.buf) && n < inletSize {
				in.buf = make([]byte, inletSize)
			}
			in.ss.calm.pass(in.now)
			return nil
		}
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		in.until = time.Time{} // whoever set it: it has passed
		in.thin(now)
	}
}

// thin gives buffers up that were not needed for a while.
func (in *frameInput) thin(since time.Time) {
	if time.Since(since) < soon || len(in.buf) == thinInlet {
		return
	}
	in.buf = make([]byte, thinInlet)
	in.ss.thin()
}

// arm bounds the wait for more. A deadline that comes too early is harmless: then
// somebody looks again.
func (in *frameInput) arm(now time.Time) error {
	in.ss.mu.Lock()
	defer in.ss.mu.Unlock() // or the end of the session could move the deadline, in vain
	until, err := in.dueLocked(now)
	if err != nil {
		return err
	}
	if in.until.After(now) && !in.until.After(until) {
		return nil
	}
	if len(in.buf) > thinInlet {
		until = earlier(until, now.Add(soon))
	}
	in.until = until
	return in.ss.SetReadDeadline(until)
}

// dueLocked returns until when more is to come, and an error when it should have. What
// was said until now goes out first.
func (in *frameInput) dueLocked(now time.Time) (until time.Time, err error) {
	ss := in.ss
	ss.calm.earn(ss.earned)
	ss.earned = 0
	ss.holdBackLocked()
	ss.kickLocked()
	until, err = ss.dueLocked(now)
	if err != nil || !in.part {
		return until, err
	}
	b := ss.s.bounds.Load()
	if in.since.IsZero() {
		in.since = now
	}
	last := in.since.Add(b.HeaderTimeout)
	if in.slow {
		last = in.now.Add(b.StreamIdle)
	}
	if !now.Before(last) {
		return last, os.ErrDeadlineExceeded
	}
	return earlier(until, last), nil
}

// earlier returns the earlier of two moments.
func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}
