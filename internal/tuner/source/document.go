package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxDepth bounds the nesting of a document.
const maxDepth = 1000

// Document reads a number from a JSON document behind HTTP.
type Document struct {
	*Endpoint // may be shared with others of its kind

	// Path to the number: names joined by dots, [2] for an element of a list,
	// ["a.b"] for a name that holds dots, and * to sum over all members or
	// elements.
	Path string

	answer outcome
	found  found // in the last answer
}

// Read returns the number, and when the document was asked for.
func (d *Document) Read(ctx context.Context) (float64, time.Time, error) {
	return d.Endpoint.read(ctx, d, "application/json", func(at time.Time) (float64, time.Time, error) {
		return d.found.sum, at, d.found.err
	})
}

func (d *Document) last() *outcome { return &d.answer }

// take implements part.
func (d *Document) take(parts []part, answer io.Reader, _ http.Header) error {
	var on []cursor
	for _, p := range parts {
		d, ok := p.(*Document)
		if !ok {
			continue
		}
		steps, err := ParsePath(d.Path)
		d.found = found{path: d.Path, err: err}
		if err == nil {
			on = append(on, cursor{&d.found, steps})
		}
	}
	return search(answer, on)
}

// Lookup reads a number from a JSON document, at a path as in
// [Document.Path]. A text that spells a number is one; true is 1, false 0. Of two
// members with one name the first counts.
func Lookup(document []byte, path string) (float64, error) {
	steps, err := ParsePath(path)
	if err != nil {
		return 0, err
	}
	f := found{path: path}
	if err := search(bytes.NewReader(document), []cursor{{&f, steps}}); err != nil {
		return 0, err
	}
	return f.sum, f.err
}

// Step is one part of a path.
type Step struct {
	Name  string // of a member; "" for an element
	Index int    // of an element
	All   bool   // every member or element
}

// ParsePath reads a path.
func ParsePath(path string) ([]Step, error) {
	var steps []Step
	for rest := path; ; {
		var s Step
		var err error
		if s, rest, err = parseStep(rest); err != nil {
			return nil, fmt.Errorf("source: path %.80q: %w", path, err)
		}
		steps = append(steps, s)
		if rest == "" {
			return steps, nil
		}
		if after, dot := strings.CutPrefix(rest, "."); dot {
			rest = after
		} else if rest[0] != '[' {
			return nil, fmt.Errorf("%w: path %.80q: a dot is missing before %.20q", ErrForm, path, rest)
		}
	}
}

func parseStep(text string) (s Step, rest string, err error) {
	if quoted, found := strings.CutPrefix(text, `["`); found {
		name, after, closed := strings.Cut(quoted, `"]`)
		if !closed || name == "" {
			return s, "", fmt.Errorf(`%w: ["name"] does not end`, ErrForm)
		}
		return Step{Name: name}, after, nil
	}
	if index, found := strings.CutPrefix(text, "["); found {
		number, after, closed := strings.Cut(index, "]")
		n, err := strconv.ParseUint(number, 10, 31)
		if !closed || err != nil {
			return s, "", fmt.Errorf("%w: [%.20s is not the number of an element", ErrForm, index)
		}
		return Step{Index: int(n)}, after, nil
	}
	end := strings.IndexAny(text, ".[")
	if end < 0 {
		end = len(text)
	}
	name := text[:end]
	if name == "" {
		return s, "", fmt.Errorf("%w: a name is missing", ErrForm)
	}
	if name == "*" {
		return Step{All: true}, text[end:], nil
	}
	return Step{Name: name}, text[end:], nil
}

// found is what lies at a path: a number, or the sum of several.
type found struct {
	path string
	sum  float64
	err  error // the first one
}

func (f *found) fail(err error) {
	if f.sum = 0; f.err == nil {
		f.err = err
	}
}

// cursor is a path that has led to a value, and the steps that are left of it.
type cursor struct {
	to    *found
	steps []Step
}

// search reads a document once, and finds what lies at each path. It keeps one value
// of the document at a time.
func search(r io.Reader, on []cursor) error {
	decoder := json.NewDecoder(r)
	decoder.UseNumber()
	return walk(decoder, on, 0)
}

// walk reads the next value, to which the paths have led.
func walk(decoder *json.Decoder, on []cursor, depth int) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	delim, nested := token.(json.Delim)
	if !nested {
		for _, c := range on {
			c.scalar(token)
		}
		return nil
	}
	if depth == maxDepth {
		return fmt.Errorf("%w: nested deeper than %d", ErrForm, maxDepth)
	}
	below, reached := make([]cursor, 0, len(on)), make([]bool, len(on))
	for i := 0; decoder.More(); i++ {
		var key json.Token
		if delim == '{' {
			if key, err = decoder.Token(); err != nil {
				return fmt.Errorf("%w: %w", ErrForm, err)
			}
		}
		below = below[:0]
		for j, c := range on {
			if len(c.steps) > 0 && (c.steps[0].All || !reached[j] && c.steps[0].is(key, i)) {
				reached[j] = true
				below = append(below, cursor{c.to, c.steps[1:]})
			}
		}
		if err := walk(decoder, below, depth+1); err != nil {
			return err
		}
	}
	if _, err := decoder.Token(); err != nil {
		return fmt.Errorf("%w: %w", ErrForm, err)
	}
	for j, c := range on {
		switch {
		case len(c.steps) == 0:
			c.to.fail(fmt.Errorf("%w: %s is not a number", ErrForm, c.to.path))
		case !reached[j] && !c.steps[0].All:
			c.to.fail(fmt.Errorf("%w: %s", ErrAbsent, c.to.path))
		}
	}
	return nil
}

// is reports whether the step leads to the member of that name, or where there is no
// name to the element of that number.
func (s Step) is(key json.Token, i int) bool {
	if name, member := key.(string); member {
		return s.Name == name && name != ""
	}
	return s.Name == "" && s.Index == i
}

// scalar takes a value that has nothing below it.
func (c cursor) scalar(v json.Token) {
	if len(c.steps) > 0 {
		c.to.fail(fmt.Errorf("%w: %s", ErrAbsent, c.to.path))
		return
	}
	n, err := numberOf(v, c.to.path)
	if err != nil {
		c.to.fail(err)
	} else if c.to.err == nil {
		c.to.sum += n
	}
}

func numberOf(v any, path string) (float64, error) {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Float64(); err == nil {
			return n, nil
		}
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			return n, nil
		}
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	}
	return math.NaN(), fmt.Errorf("%w: %s is not a number", ErrForm, path)
}
