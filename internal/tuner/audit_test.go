package tuner_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/admitd/admitd/internal/tuner"
)

// limitFiles bounds the size of the files that this process writes, as a disk
// does that is full, and returns what takes the bound away.
func limitFiles(t *testing.T, size uint64) func() {
	t.Helper()
	var old syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
		t.Skipf("needs a limit of files: %v", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: size, Max: old.Max}); err != nil {
		t.Skipf("needs a limit of files: %v", err)
	}
	restore := func() { _ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old) }
	t.Cleanup(restore)
	return restore
}

// A disk that was full was told of when the gate ended, and the part of a line
// that had fitted stayed: it spoilt the next one too. Now the first failure is
// told of at once, and every line is whole.
func TestAuditOnAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	var told []error
	a, err := tuner.OpenAudit(path, func(err error) { told = append(told, err) })
	if err != nil {
		t.Fatal(err)
	}
	a.Write(&tuner.Record{ID: "1"})
	whole, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	restore := limitFiles(t, uint64(whole.Size())*3/2)
	a.Write(&tuner.Record{ID: "2"})
	a.Write(&tuner.Record{ID: "3"})
	if len(told) != 1 || !errors.Is(a.Err(), syscall.EFBIG) {
		t.Errorf("told %d times, last %v; want once, of a file that cannot grow", len(told), a.Err())
	}
	restore()
	a.Write(&tuner.Record{ID: "4"})
	restore = limitFiles(t, uint64(whole.Size())*5/2)
	a.Write(&tuner.Record{ID: "5"})
	restore()
	if len(told) != 1 {
		t.Errorf("told %d times of a disk on which one record found room meanwhile; want once", len(told))
	}
	for range 10 {
		a.Write(&tuner.Record{ID: "6"})
	}
	restore = limitFiles(t, uint64(whole.Size()))
	a.Write(&tuner.Record{ID: "7"})
	restore()
	if len(told) != 2 {
		t.Errorf("told %d times; want of the disk that was good for ten records too", len(told))
	}
	a.Write(&tuner.Record{ID: "8"})
	if err := errors.Join(a.Err(), a.Close()); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for line := range strings.Lines(string(b)) {
		var r tuner.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Errorf("line %q: %v", line, err)
		}
		ids = append(ids, r.ID)
	}
	if got := strings.Join(ids, " "); got != "1 4 6 6 6 6 6 6 6 6 6 6 8" {
		t.Errorf("records %s; want 1, 4, ten times 6, and 8", got)
	}
}
