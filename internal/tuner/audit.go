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
	path   string
	failed func(error)

	mu   sync.Mutex // guards the fields below
	f    *os.File
	size int64 // of whole lines
	torn bool  // part of a line may stand behind them
	err  error // of the last record
	told bool  // that it fails
	good int   // records in a row that were written since
}

// settled is how many records in a row must have been written before a failure is
// told again: on a disk that is nearly full some still find room, and some do not.
const settled = 10

// OpenAudit opens or creates the file, readable by its owner only. failed is
// told when it cannot be written, once until it has been good for a while; it may
// be nil, and must not use the file.
func OpenAudit(path string, failed func(error)) (*AuditFile, error) {
	a := &AuditFile{path: path, failed: failed}
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
		err = a.append(append(line, '\n'))
	}
	a.judge(err)
}

// judge remembers how a record went, and tells of it. The mutex is held.
func (a *AuditFile) judge(err error) {
	a.err = err
	if err == nil {
		if a.good++; a.good >= settled {
			a.told = false
		}
		return
	}
	a.good = 0
	if !a.told && a.failed != nil {
		a.failed(err)
	}
	a.told = true
}

// append writes a line. What a full disk took of one is cut off again, and when
// that fails too, before the next line: none begins in the middle of another. The
// mutex is held.
func (a *AuditFile) append(line []byte) error {
	if a.torn {
		if err := a.f.Truncate(a.size); err != nil {
			return err
		}
		a.torn = false
	}
	n, err := a.f.Write(line)
	if err == nil {
		a.size += int64(n)
	} else if n > 0 {
		a.torn = a.f.Truncate(a.size) != nil
	}
	return err
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
