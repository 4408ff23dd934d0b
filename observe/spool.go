package observe

import (
	"io"
	"sync"
	"time"
)

// Bounds of a [Spool].
const (
	spoolBytes        = 1 << 20
	spoolPatience     = 50 * time.Millisecond
	spoolLastRefusals = time.Second
)

// Spool writes lines to a reader who may stand still, such as that of a pipe. While
// it reads, a line is out when Write returns. Once it has not read for 50 ms nobody
// waits for it: lines are kept, a MiB at most, and lost beyond that. It is safe for
// concurrent use.
type Spool struct {
	Out io.Writer
	// Lost is told, when the reader reads again, how many lines were lost meanwhile.
	// It runs in a goroutine of its own, and may write; nil = nobody is told.
	Lost func(lines uint64)

	mu      sync.Mutex // guards the fields below; never held while Out is written
	next    batch
	written chan struct{} // closed when all of it is; nil = nothing is to be written
	stalled bool          // somebody waited in vain, and not all is written since
	lost    uint64
}

// batch is what is written at once.
type batch struct {
	lines []byte
	out   chan struct{} // closed when it was written; nil = it is empty
}

// Write implements [io.Writer]: line is one line. It never fails, and takes at most
// 50 ms.
func (s *Spool) Write(line []byte) (int, error) {
	if out := s.add(line); out != nil && !within(spoolPatience, out) {
		s.mu.Lock()
		s.stalled = s.written != nil
		s.mu.Unlock()
	}
	return len(line), nil
}

// add keeps a line, and has somebody write it. It returns what to wait for, nil when
// nobody should.
func (s *Spool) add(line []byte) (out <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next.lines)+len(line) > spoolBytes {
		s.lost++
		return nil
	}
	if s.next.out == nil {
		s.next.out = make(chan struct{})
	}
	s.next.lines = append(s.next.lines, line...)
	if s.written == nil {
		s.written = make(chan struct{})
		go s.run()
	}
	if s.stalled {
		return nil
	}
	return s.next.out
}

// Flush waits, for a second at most, until what is kept is written.
func (s *Spool) Flush() {
	s.mu.Lock()
	written := s.written
	s.mu.Unlock()
	if written != nil {
		within(spoolLastRefusals, written)
	}
}

// run writes until nothing is left.
func (s *Spool) run() {
	for {
		b, ok := s.take()
		if !ok {
			return
		}
		_, _ = s.Out.Write(b.lines) // whom would one tell?
		close(b.out)
	}
}

// take returns what is to be written next. What was written before it is out.
func (s *Spool) take() (b batch, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if lost := s.lost; lost > 0 && len(s.next.lines) < spoolBytes/2 {
		s.lost = 0
		if s.Lost != nil {
			go s.Lost(lost)
		}
	}
	if s.next.out == nil {
		close(s.written)
		s.written, s.stalled = nil, false
		return b, false
	}
	b, s.next = s.next, batch{}
	return b, true
}

// within reports whether done is closed before d has passed.
func within(d time.Duration, done <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}
