package observe

import (
	"bytes"
	"io"
	"regexp"
	"sync"
)

// Bounds of a [Tail].
const (
	tailBytes = 256 << 10
	tailLine  = 4 << 10 // what is longer is cut
)

// Tail keeps the last lines of a log, and hands everything on. The zero value
// keeps them and hands nothing on. It is safe for concurrent use.
type Tail struct {
	Out io.Writer // where everything goes; nil = nowhere

	mu    sync.Mutex // guards the fields below; held while Out is written
	lines [][]byte   // the oldest first
	bytes int
}

// Write implements [io.Writer]: b is one line.
func (t *Tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	line := bytes.Clone(b[:min(len(b), tailLine)])
	if len(b) > tailLine {
		line[tailLine-1] = '\n'
	}
	t.lines, t.bytes = append(t.lines, line), t.bytes+len(line)
	for t.bytes > tailBytes {
		t.bytes -= len(t.lines[0])
		t.lines = t.lines[1:]
	}
	if t.Out == nil {
		return len(b), nil
	}
	return t.Out.Write(b)
}

// secret finds what must not be told: whatever follows a word for a secret, and
// the user part of URLs. The daemon logs none; a backend's error may.
var secret = regexp.MustCompile(`(?i)((?:bearer|basic) +|(?:authorization|password|passwd|secret|token|api[_-]?key)[\\"']*[:=] *[\\"']*(?:(?:bearer|basic) +)?)[^\s"'\\,;&}]+|(://)[^/@\s"]+@`)

// Lines returns the last lines, the oldest first, without what looks like a
// secret.
func (t *Tail) Lines() []byte {
	t.mu.Lock()
	all := bytes.Join(t.lines, nil)
	t.mu.Unlock()
	return secret.ReplaceAll(all, []byte("${1}${2}[redacted]"))
}
