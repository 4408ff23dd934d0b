package source

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"
)

// Bounds of a text endpoint.
const (
	maxLine   = 64 << 10 // of a line that is read; others may be longer
	maxLabels = 64       // of a sample
)

var errLongLine = fmt.Errorf("%w: a line of more than %d bytes", ErrForm, maxLine)

// sample is one line of the Prometheus text format. Its labels lie in the wait queue, and
// are valid until the next one is read.
type sample struct {
	labels   []label
	value    float64
	at       time.Time // when it was true; zero = it does not say
	bound    float64   // of the label le
	hasBound bool
}

type label struct{ name, value []byte }

// readText reads the samples of the wanted metrics, by name, from the Prometheus or
// OpenMetrics text format; times are in the unit. Lines of other metrics are not
// looked into, and nothing but sums is kept. A sample that cannot be read is the
// error of those who want its metric.
func readText(r io.Reader, unit time.Duration, wanted map[string][]*Scrape) error {
	lines := bufio.NewReaderSize(r, maxLine)
	var s sample
	for {
		line, err := lines.ReadSlice('\n')
		long := errors.Is(err, bufio.ErrBufferFull)
		text := bytes.TrimSpace(line)
		name := text
		if end := bytes.IndexAny(text, "{ \t"); end >= 0 {
			name = text[:end]
		}
		if who := wanted[string(name)]; len(who) > 0 {
			bad := errLongLine
			if !long {
				bad = s.parse(text[len(name):], unit)
			}
			for _, one := range who {
				if bad != nil && one.sum.err == nil {
					one.sum.err = fmt.Errorf("%w (metric %.80s)", bad, name)
				} else if bad == nil {
					one.add(&s)
				}
			}
		}
		for long { // the rest of a long line
			_, err = lines.ReadSlice('\n')
			long = errors.Is(err, bufio.ErrBufferFull)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
	}
}

// parse reads what follows the name: labels, a value, perhaps a time and an
// exemplar, which is of no interest.
func (s *sample) parse(rest []byte, unit time.Duration) error {
	*s = sample{labels: s.labels[:0]}
	if len(rest) > 0 && rest[0] == '{' {
		var err error
		if rest, err = s.parseLabels(rest[1:]); err != nil {
			return err
		}
	}
	value, rest := field(rest)
	if len(value) == 0 {
		return fmt.Errorf("%w: there is no value", ErrForm)
	}
	var err error
	if s.value, err = strconv.ParseFloat(string(value), 64); err != nil {
		return fmt.Errorf("%w: value %.40q", ErrForm, value)
	}
	at, _ := field(rest)
	if len(at) == 0 || at[0] == '#' {
		return nil
	}
	since, err := strconv.ParseFloat(string(at), 64)
	if since *= float64(unit) / float64(time.Millisecond); err != nil || !(math.Abs(since) < 1e14) {
		return fmt.Errorf("%w: time %.40q", ErrForm, at)
	}
	s.at = time.UnixMilli(int64(since))
	return nil
}

// field parts the first word from the rest.
func field(text []byte) (word, rest []byte) {
	text = bytes.TrimLeft(text, " \t")
	if end := bytes.IndexAny(text, " \t"); end >= 0 {
		return text[:end], text[end:]
	}
	return text, nil
}

// parseLabels reads labels up to and with the closing brace, and returns what
// follows. Values are written over the line where they hold escapes.
func (s *sample) parseLabels(text []byte) (rest []byte, err error) {
	for {
		text = bytes.TrimLeft(text, " \t,")
		if len(text) > 0 && text[0] == '}' {
			return text[1:], nil
		}
		key, after, found := bytes.Cut(text, []byte("="))
		after = bytes.TrimLeft(after, " \t")
		if !found || len(after) == 0 || after[0] != '"' || len(s.labels) == maxLabels {
			return nil, fmt.Errorf("%w: labels: %.40q", ErrForm, text)
		}
		value, rest, closed := unquote(after[1:])
		if !closed {
			return nil, fmt.Errorf("%w: a label value does not end: %.40q", ErrForm, after)
		}
		key, text = bytes.TrimSpace(key), rest
		s.labels = append(s.labels, label{key, value})
		if string(key) == "le" {
			bound, err := strconv.ParseFloat(string(value), 64)
			s.bound, s.hasBound = bound, err == nil && !math.IsNaN(bound)
		}
	}
}

// unquote reads up to the closing quote, over the text itself.
func unquote(text []byte) (value, rest []byte, closed bool) {
	n := 0
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '"' {
			return text[:n], text[i+1:], true
		}
		if c == '\\' {
			if i++; i == len(text) {
				break
			}
			if c = text[i]; c == 'n' {
				c = '\n'
			}
		}
		text[n] = c
		n++
	}
	return nil, nil, false
}

// matches reports whether the sample has all of the labels; one that it lacks counts
// as empty, and of two with one name the last counts.
func (s *sample) matches(labels map[string]string) bool {
	for name, want := range labels {
		var value []byte
		for _, l := range s.labels {
			if string(l.name) == name {
				value = l.value
			}
		}
		if string(value) != want {
			return false
		}
	}
	return true
}
