package trace

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// Files are the trace files that are being written. Who joins one that is open
// writes to the same recording, so that two never write to one file. The zero
// value is ready; it is safe for concurrent use.
type Files struct {
	mu   sync.Mutex // guards the field below; held while files are opened and closed
	open map[string]*recording
}

// recording is one trace file.
type recording struct {
	recorder *Recorder
	file     *os.File
	users    int
	failed   func(error)
	told     bool // written by the recorder's goroutine, read once that has ended
}

// Write implements [io.Writer] for the recorder, which goes on without a word when
// it fails: a full disk is told of when it is full, not hours later when the gate
// ends.
func (rec *recording) Write(b []byte) (int, error) {
	n, err := rec.file.Write(b)
	if err != nil && !rec.told {
		rec.told = true
		rec.failed(err)
	}
	return n, err
}

// Record opens the file of that name, or joins who writes to it already, and
// returns what ends that. A file that has maxSize bytes already is an error. When
// nothing more can be written, the failed of who came first is told, once; it may
// be nil only where that cannot be.
func (r *Files) Record(name string, maxSize int64, failed func(error)) (*Recorder, func() error, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.open[name]
	if rec == nil {
		var err error
		if rec, err = begin(name, maxSize, failed); err != nil {
			return nil, nil, err
		}
		if r.open == nil {
			r.open = map[string]*recording{}
		}
		r.open[name] = rec
	}
	rec.users++
	return rec.recorder, func() error { return r.leave(name) }, nil
}

// begin opens a file and begins a session at its end.
func begin(name string, maxSize int64, failed func(error)) (*recording, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && info.Size() >= maxSize {
		err = fmt.Errorf("%s has %d bytes, at most %d: move it away to record on", name, info.Size(), maxSize)
	}
	if err != nil {
		_ = file.Close() // nothing was written
		return nil, err
	}
	rec := &recording{file: file, failed: failed}
	rec.recorder = NewRecorder(rec, maxSize-info.Size())
	return rec, nil
}

// leave closes the file when nobody writes to it any more.
func (r *Files) leave(name string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec := r.open[name]
	if rec.users--; rec.users > 0 {
		return nil
	}
	delete(r.open, name)
	err := rec.recorder.Close()
	if rec.told {
		err = nil
	}
	return errors.Join(err, rec.file.Close())
}
