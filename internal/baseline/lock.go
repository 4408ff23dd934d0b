package baseline

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ErrInUse is the error of [Lock] while another process, or another holder in this
// one, has the file.
var ErrInUse = errors.New("baseline: another daemon keeps its state in this file")

// Lock reserves the file for whoever is to [Write] it, by a lock on a file beside it,
// and removes what writers that were killed have left behind. The lock ends with the
// process, or with unlock, which is called once. The error may be [ErrInUse]. Systems
// and file systems without such locks reserve nothing.
func Lock(path string) (unlock func(), err error) {
	path = target(path)
	f, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("baseline: %w", err)
	}
	if !reserve(f) {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("%w (%s is locked)", ErrInUse, f.Name())
	}
	removeTemporary(path)
	return func() { _ = f.Close() }, nil
}

// removeTemporary removes the temporary files of a path: what is named as
// [os.CreateTemp] does it in [Write].
func removeTemporary(path string) {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		return // who writes there will tell
	}
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), prefix)
		if ok && digits != "" && strings.Trim(digits, "0123456789") == "" && e.Type().IsRegular() {
			_ = os.Remove(filepath.Join(dir, e.Name())) // it costs room, and nothing else
		}
	}
}
