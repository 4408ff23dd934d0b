package trace

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/limiter"
)

// recorderBuffer is how many records may wait to be written. What comes when it
// is full is lost and counted.
const recorderBuffer = 1 << 14

// recorderFlush is how often what was written reaches the file.
const recorderFlush = time.Second

// Recorder writes what a gate is asked and how it went to a compact trace. It is
// a [limiter.Tracer]: its methods never block and may be called by many
// goroutines. A [Recorder] that has reached its size, or failed to write, drops
// everything that comes.
type Recorder struct {
	records chan record
	lost    atomic.Uint64
	written atomic.Int64
	closing sync.Once
	stop    chan struct{}
	ended   chan struct{}
	err     error // valid once ended is closed
}

var _ limiter.Tracer = (*Recorder)(nil)

// NewRecorder begins a session in w, of at most maxSize bytes. [Recorder.Close]
// ends it; w is the caller's to close.
func NewRecorder(w io.Writer, maxSize int64) *Recorder {
	r := &Recorder{records: make(chan record, recorderBuffer), stop: make(chan struct{}), ended: make(chan struct{})}
	go r.run(w, maxSize)
	return r
}

// Offered implements [limiter.Tracer].
func (r *Recorder) Offered(now int64, key string, cost float64) {
	r.put(record{kind: kindArrival, now: now, key: key, cost: cost})
}

// Ended implements [limiter.Tracer].
func (r *Recorder) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	r.put(record{kind: kindEnded, now: now, start: start, latency: latency, outcome: o})
}

// put hands a record to the writer, or counts it as lost.
func (r *Recorder) put(rec record) {
	select {
	case r.records <- rec:
	default:
		r.lost.Add(1)
	}
}

// Written returns the bytes of this session so far.
func (r *Recorder) Written() int64 { return r.written.Load() }

// Lost returns the records that found the buffer full since the last one that
// did not.
func (r *Recorder) Lost() uint64 { return r.lost.Load() }

// Close writes what is left and returns the first error there was. Calls of the
// tracer's methods after it are harmless. It may be called more than once.
func (r *Recorder) Close() error {
	r.closing.Do(func() { close(r.stop) })
	<-r.ended
	return r.err
}

// run writes until the recorder is closed.
func (r *Recorder) run(w io.Writer, maxSize int64) {
	defer close(r.ended)
	out := &traceWriter{r: r, w: bufio.NewWriterSize(w, 1<<16), enc: newEncoder(), left: maxSize}
	out.write([]byte(traceMagic))
	ticker := time.NewTicker(recorderFlush)
	defer ticker.Stop()
	for {
		select {
		case rec := <-r.records:
			out.record(&rec)
		case <-ticker.C:
			out.flush()
		case <-r.stop:
			for len(r.records) > 0 {
				rec := <-r.records
				out.record(&rec)
			}
			out.flush()
			r.err = out.err
			return
		}
	}
}

// traceWriter writes one session.
type traceWriter struct {
	r    *Recorder
	w    *bufio.Writer
	enc  *encoder
	buf  []byte
	left int64
	full bool
	err  error
}

// record writes one record, and before it how many were lost.
func (t *traceWriter) record(rec *record) {
	if t.full || t.err != nil {
		return
	}
	if n := t.r.lost.Swap(0); n > 0 {
		t.write(binary.AppendUvarint([]byte{kindLost}, n))
	}
	t.buf = t.enc.append(t.buf[:0], rec)
	t.write(t.buf)
}

// write writes whole records, as long as there is room.
func (t *traceWriter) write(b []byte) {
	if t.full || t.err != nil {
		return
	}
	if int64(len(b)) > t.left {
		t.full = true // a record that no longer fits, and all after it
		return
	}
	t.left -= int64(len(b))
	t.r.written.Add(int64(len(b)))
	if _, err := t.w.Write(b); err != nil {
		t.err = fmt.Errorf("lab: record: %w", err)
	}
}

// flush hands what is buffered to the file.
func (t *traceWriter) flush() {
	if err := t.w.Flush(); err != nil && t.err == nil {
		t.err = fmt.Errorf("lab: record: %w", err)
	}
}

// SyncRecorder writes a trace without a buffer that could overflow: virtual time
// makes hours of records in a second.
type SyncRecorder struct {
	enc *encoder
	w   io.Writer
}

// NewSyncRecorder begins a trace.
func NewSyncRecorder(w io.Writer) *SyncRecorder {
	_, _ = io.WriteString(w, traceMagic)
	return &SyncRecorder{enc: newEncoder(), w: w}
}

// Offered implements limiter.Tracer.
func (t *SyncRecorder) Offered(now int64, key string, cost float64) {
	_, _ = t.w.Write(t.enc.append(nil, &record{kind: kindArrival, now: now, key: key, cost: cost}))
}

// Ended implements limiter.Tracer.
func (t *SyncRecorder) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	_, _ = t.w.Write(t.enc.append(nil, &record{kind: kindEnded, now: now, start: start, latency: latency, outcome: o}))
}
