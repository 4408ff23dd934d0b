package daemon

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// recordings are the trace files that are being written. A front that replaces
// another writes to the same recording, so that two never write to one file.
// The zero value is ready.
type recordings struct {
	mu   sync.Mutex // guards the field below; held while files are opened and closed
	open map[string]*recording
}

// recording is one trace file.
type recording struct {
	recorder *trace.Recorder
	file     *os.File
	users    int
}

// use opens the file, or joins who writes to it already, and returns what ends
// that. A file that has its size already is an error.
func (r *recordings) use(t *config.Trace) (*trace.Recorder, func() error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.open[t.File]
	if rec == nil {
		var err error
		if rec, err = record(t); err != nil {
			return nil, nil, err
		}
		if r.open == nil {
			r.open = map[string]*recording{}
		}
		r.open[t.File] = rec
	}
	rec.users++
	return rec.recorder, func() error { return r.leave(t.File) }, nil
}

// record opens a file and begins a session at its end.
func record(t *config.Trace) (*recording, error) {
	file, err := os.OpenFile(t.File, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() >= int64(t.MaxSize) {
		err = fmt.Errorf("%s has %d bytes, at most %d: move it away to record on", t.File, info.Size(), int64(t.MaxSize))
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	return &recording{recorder: trace.NewRecorder(file, int64(t.MaxSize)-info.Size()), file: file}, nil
}

// leave closes the file when nobody writes to it any more.
func (r *recordings) leave(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.open[name]
	if rec.users--; rec.users > 0 {
		return nil
	}
	delete(r.open, name)
	err := rec.recorder.Close()
	if closing := rec.file.Close(); err == nil {
		err = closing
	}
	return err
}

// tap is the tracer of a gate. It hears nothing until the gate serves, so that
// checking a configuration writes no file.
type tap struct {
	recorder atomic.Pointer[trace.Recorder]
}

// Offered implements [limiter.Tracer].
func (t *tap) Offered(now int64, key string, cost float64) {
	if r := t.recorder.Load(); r != nil {
		r.Offered(now, key, cost)
	}
}

// Ended implements [limiter.Tracer].
func (t *tap) Ended(start, now int64, latency time.Duration, o limiter.Outcome) {
	if r := t.recorder.Load(); r != nil {
		r.Ended(start, now, latency, o)
	}
}

// record begins the recording of a front, if one is configured. A gate that
// cannot record serves all the same.
func (fs *fronts) record(f *front) {
	if f.tap == nil {
		return
	}
	failed := func(err error) {
		fs.log.Error("recording failed", slog.String("ingress", f.name), slog.String("file", f.trace.File), slog.Any("error", err))
	}
	recorder, leave, err := fs.recordings.use(&f.trace)
	if err != nil {
		failed(err)
		return
	}
	f.tap.recorder.Store(recorder)
	f.gateUndo = append(f.gateUndo, func() {
		f.tap.recorder.Store(nil)
		if err := leave(); err != nil {
			failed(err)
		}
	})
}
