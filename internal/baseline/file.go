package baseline

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Errors of [Read] for a file that is left alone: nothing of it is believed.
var (
	// ErrForeign: something else wrote it, or it is a device, a pipe or a directory.
	// Whoever named it made a mistake: it is not to be replaced.
	ErrForeign = errors.New("baseline: not a state file of admitd")
	// ErrVersion: another version of admitd wrote it.
	ErrVersion = errors.New("baseline: the state file is of another version of admitd")
	// ErrCorrupt: it is not what was written.
	ErrCorrupt = errors.New("baseline: the state file is damaged")
	// ErrStale: what it says is too old, or of the future.
	ErrStale = errors.New("baseline: the state file is too old")
)

// magic begins the first line of a file; the version and the digest of the rest
// follow it.
const (
	magic   = "admitd-state "
	version = "1 "

	maxHead = 256 // bytes of the first line, with room to spare
)

// State is what a file says.
type State struct {
	Saved     time.Time `json:"saved"`
	Ingresses []Ingress `json:"ingresses"`
	// Tuner is what people asked of the tuner, in its own words; nil = nothing. It
	// holds until they ask otherwise: [Read] returns it with [ErrStale] too.
	Tuner json.RawMessage `json:"tuner,omitempty"`
}

// Read returns what the file says and holds as of now.
// The error may be [ErrForeign], [ErrVersion], [ErrCorrupt], [ErrStale], or what opening it says,
// which is [os.ErrNotExist] before the first [Write].
func Read(path string, now time.Time) (State, error) {
	if err := mayReplace(path); err != nil {
		return State{}, err
	}
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return State{}, fmt.Errorf("baseline: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return State{}, fmt.Errorf("baseline: %w", err)
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	rest, ours := strings.CutPrefix(string(head), magic)
	digest, known := strings.CutPrefix(rest, version)
	switch sum := sha256.Sum256(body); {
	case !ours && len(b) > 0:
		return State{}, ErrForeign
	case len(b) > maxBytes, len(b) == 0:
		return State{}, ErrCorrupt
	case !known:
		return State{}, ErrVersion
	case digest != hex.EncodeToString(sum[:]):
		return State{}, ErrCorrupt
	}
	var c State
	if err := json.Unmarshal(body, &c); err != nil {
		return State{}, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	if !fresh(c.Saved, now) {
		return State{Saved: c.Saved, Tuner: c.Tuner}, fmt.Errorf("%w: of %s", ErrStale, c.Saved.Format(time.RFC3339))
	}
	c.Ingresses = hold(c.Ingresses, now)
	return c, nil
}

// mayReplace returns [ErrForeign] when there is something of that name that is no
// file: to wait for what comes out of a pipe would be for ever, and a device that
// is replaced is missed by the whole machine.
func mayReplace(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%w: %s", ErrForeign, info.Mode().Type())
	}
	return nil
}

// isOurs returns [ErrForeign] when the file begins as no state file does. One that is
// empty or not there may be written.
func isOurs(path string) error {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("baseline: %w", err)
	}
	defer f.Close()
	head := make([]byte, len(magic))
	switch n, err := io.ReadFull(f, head); {
	case errors.Is(err, io.EOF): // empty
		return nil
	case err != nil && !errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("baseline: %w", err)
	case string(head[:n]) != magic:
		return ErrForeign
	}
	return nil
}

// target returns where a link leads, so that it stays and what it leads to is
// replaced; path when it is none.
func target(path string) string {
	if found, err := filepath.EvalSymlinks(path); err == nil {
		return found
	}
	next, err := os.Readlink(path) // to a file that is not there yet
	switch {
	case err != nil:
		return path
	case filepath.IsAbs(next):
		return next
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return path
	}
	return filepath.Join(dir, next)
}

// hold leaves what holds as of now, within the bounds.
func hold(all []Ingress, now time.Time) []Ingress {
	for i := range all {
		in := &all[i]
		in.Partitions = slices.DeleteFunc(slices.Clone(in.Partitions), func(p Partition) bool { return !p.holds(now) })
		in.Partitions = in.Partitions[:min(len(in.Partitions), MaxPartitions)]
	}
	return all
}

// Write replaces the file by one that says all of st, saved now, of each ingress as
// many partitions as are kept and can be read again, the first ones. Who reads meanwhile, or after a crash
// in the midst of it, sees the file before or the one after. The error may be
// [ErrForeign].
func Write(path string, now time.Time, st State) error {
	if err := mayReplace(path); err != nil {
		return err
	}
	if err := isOurs(path); err != nil {
		return err
	}
	all := State{Saved: now.UTC(), Ingresses: hold(slices.Clone(st.Ingresses), now), Tuner: st.Tuner}
	body, err := json.Marshal(all)
	for most := MaxPartitions / 2; err == nil && len(body) > maxBytes-maxHead; most /= 2 { // Read takes no more
		if most == 0 {
			return fmt.Errorf("baseline: %d bytes are to be kept, want %d at most", len(body), maxBytes-maxHead)
		}
		for i := range all.Ingresses {
			in := &all.Ingresses[i]
			in.Partitions = in.Partitions[:min(len(in.Partitions), most)]
		}
		body, err = json.Marshal(all)
	}
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	sum := sha256.Sum256(body)
	path = target(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("baseline: %w", err)
	}
	_, err = f.Write(append([]byte(magic+version+hex.EncodeToString(sum[:])+"\n"), body...))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // the first error counts
		return fmt.Errorf("baseline: %w", err)
	}
	return nil
}
