package source

import (
	"io"
	"strings"
	"time"
)

// Value is what Read makes of an answer.
func (s *Scrape) Value(text string) (float64, error) { return s.ValueOf(strings.NewReader(text)) }

// ValueOf is what Read makes of an answer.
func (s *Scrape) ValueOf(r io.Reader) (float64, error) {
	if err := s.take([]part{s}, r, nil); err != nil {
		return 0, err
	}
	v, _, err := s.value(time.Now())
	return v, err
}

// ParseAnswer is what Query makes of an answer.
var ParseAnswer = parseAnswer

// Search is [Lookup] in a document that is read.
func Search(r io.Reader, path string) (float64, error) {
	d := &Document{Path: path}
	if err := d.take([]part{d}, r, nil); err != nil {
		return 0, err
	}
	return d.found.sum, d.found.err
}
