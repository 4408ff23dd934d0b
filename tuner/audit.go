package tuner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
)

// maxAudit is the size at which an audit file is put aside; one older one is
// kept.
const maxAudit = 64 << 20

// AuditFile appends records to a file, one JSON document per line. A record
// whose trial ends is written again. Safe for concurrent use.
type AuditFile struct {
	path string

	mu   sync.Mutex // guards the fields below
	f    *os.File
	size int64
	err  error // the first failure since a success
}

// OpenAudit opens or creates the file, readable by its owner only.
func OpenAudit(path string) (*AuditFile, error) {
	a := &AuditFile{path: path}
	if err := a.open(); err != nil {
		return nil, err
	}
	return a, nil
}

func (a *AuditFile) open() error {
	f, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("tuner: audit file: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("tuner: audit file: %w", errors.Join(err, f.Close()))
	}
	a.f, a.size = f, info.Size()
	return nil
}

// Write appends a record. A failure is remembered for [AuditFile.Err] and does
// not stop the tuner.
func (a *AuditFile) Write(r *Record) {
	a.mu.Lock()
	defer a.mu.Unlock()
	line, err := json.Marshal(r)
	if err == nil && a.size >= maxAudit {
		err = errors.Join(a.f.Close(), os.Rename(a.path, a.path+".1"), a.open())
	}
	if err == nil {
		var n int
		n, err = a.f.Write(append(line, '\n'))
		a.size += int64(n)
	}
	a.err = err
}

// Err returns why the last record could not be written; nil when it was.
func (a *AuditFile) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.err
}

// Close closes the file.
func (a *AuditFile) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.f.Close(); err != nil {
		return fmt.Errorf("tuner: audit file: %w", err)
	}
	return nil
}
