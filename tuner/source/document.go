package source

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Document reads a number from a JSON document behind HTTP.
type Document struct {
	Endpoint

	// Path to the number: names joined by dots, [2] for an element of a list,
	// ["a.b"] for a name that holds dots, and * to sum over all members or
	// elements.
	Path string
}

// Read returns the number.
func (d *Document) Read(ctx context.Context) (float64, time.Time, error) {
	body, err := d.get(ctx, "application/json", nil)
	if err != nil {
		return 0, time.Time{}, err
	}
	v, err := Lookup(body, d.Path)
	return v, time.Time{}, err
}

// Lookup reads a number from a JSON document, at a path as in
// [Document.Path]. A text that spells a number is one; true is 1, false 0.
func Lookup(document []byte, path string) (float64, error) {
	steps, err := ParsePath(path)
	if err != nil {
		return 0, err
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	var v any
	if err := decoder.Decode(&v); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrForm, err)
	}
	return lookup(v, steps, path)
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

func lookup(v any, steps []Step, path string) (float64, error) {
	if len(steps) == 0 {
		return numberOf(v, path)
	}
	s, rest := steps[0], steps[1:]
	below, ok := s.below(v)
	if !ok {
		return 0, fmt.Errorf("%w: %s", ErrAbsent, path)
	}
	sum := 0.0
	for _, b := range below {
		n, err := lookup(b, rest, path)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}

// below returns what the step leads to from v; false when that is nowhere.
func (s Step) below(v any) ([]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		if s.All {
			return slices.Collect(maps.Values(v)), true
		}
		m, found := v[s.Name]
		return []any{m}, found && s.Name != ""
	case []any:
		if s.All {
			return v, true
		}
		if s.Name == "" && s.Index < len(v) {
			return v[s.Index : s.Index+1], true
		}
	}
	return nil, false
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
