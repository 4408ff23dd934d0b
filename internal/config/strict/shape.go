package strict

import (
	"encoding"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// shaper compares plain values with the structs, reports what does not fit,
// and completes what is missing with defaults. What it returns always decodes.
type shaper struct{ *Report }

// object completes the mapping v for the struct type t.
func (s shaper) object(path string, t reflect.Type, v any) map[string]any {
	all := s.o.Tags.fields(t)
	word := wordField(all)
	m, ok := v.(map[string]any)
	switch {
	case ok || v == nil:
	case word == nil:
		s.Add(path, "must be a mapping", v)
	case v != word.word:
		s.Add(path, "must be "+word.word+" or a mapping", v)
	}
	selector, selected := s.selected(all, m)
	for _, key := range slices.Sorted(maps.Keys(m)) {
		s.known(Join(path, key), key, all)
	}
	out := make(map[string]any, len(all))
	for _, f := range all {
		if f.word != "" {
			out[f.name] = !ok // the word, or nothing, which means it
			continue
		}
		v, p := m[f.name], Join(path, f.name)
		_, written := m[f.name]
		if !f.in(selected) {
			if written {
				s.Add(p, fmt.Sprintf("does not belong to %s %s, only to %s", selector, selected, OneOf(f.belongs)), nil)
			}
			continue
		}
		if f.required {
			s.missing(path, f.name, v)
		}
		if c := s.value(p, f, v, selected); c != nil {
			out[f.name] = c
		}
	}
	return out
}

// missing tells that a required key is not there, or says nothing.
func (s shaper) missing(path, name string, v any) {
	switch p := Join(path, name); v {
	case nil:
		file, line := s.Origin(path)
		s.bad[p] = true
		s.Put(Problem{File: file, Line: line, Path: p, Message: "is required"})
	case "":
		s.bad[p] = true
		s.Add(p, "must not be empty", nil)
	}
}

// selected returns the name and the value of the key that decides which others
// belong.
func (s shaper) selected(all []field, m map[string]any) (name, value string) {
	i := slices.IndexFunc(all, func(f field) bool { return f.selects })
	if i < 0 {
		return "", ""
	}
	if v, ok := m[all[i].name].(string); ok && slices.Contains(all[i].enum, v) {
		return all[i].name, v
	}
	return all[i].name, all[i].def
}

// known reports a key that no field has.
func (s shaper) known(path, key string, all []field) {
	names := make([]string, len(all))
	for i, f := range all {
		if f.word != "" {
			continue
		}
		if f.name == key {
			return
		}
		names[i] = f.name
	}
	message := "unknown key"
	if n := Nearest(key, names); n != "" {
		message += fmt.Sprintf(", did you mean %q?", n)
	}
	s.Add(path, message, nil)
}

// value completes v for the field f; nil when nothing is to be decoded.
func (s shaper) value(path string, f field, v any, selected string) any {
	t := f.typ
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isText(t):
		return s.leaf(path, f, t, v, selected)
	case t == reflect.TypeFor[Overlay]():
		return s.overlay(path, v)
	case t.Kind() == reflect.Struct:
		return s.object(path, t, v)
	case t.Kind() == reflect.Slice:
		return s.elements(path, f, v)
	case t.Kind() == reflect.Map:
		return s.entries(path, f, v)
	default:
		return s.leaf(path, f, t, v, selected)
	}
}

// leaf completes a value that is one word or number.
func (s shaper) leaf(path string, f field, t reflect.Type, v any, selected string) any {
	if f.zero != "" && v == f.zero {
		v = int64(0)
	} else if f.zero != "" && (v == int64(0) || v == 0.0 || v == uint64(0) || v == "0") {
		s.zeros = append(s.zeros, path)
	}
	if v != nil {
		got, problem := scalar(t, v)
		if problem == "must be a number" && f.zero != "" {
			problem += " or " + f.zero
		}
		if problem != "" && len(f.enum) > 0 {
			problem = f.choose("")
		}
		if problem == "" {
			problem = f.outside(t, got)
		}
		if problem == "" {
			return got
		}
		if t == reflect.TypeFor[Secret]() {
			v = Redacted
		}
		s.Add(path, problem, v)
	}
	if !f.hasDefault {
		return nil
	}
	return fromText(t, f.defaultFor(selected))
}

// elements completes a list.
func (s shaper) elements(path string, f field, v any) any {
	l, ok := v.([]any)
	switch {
	case v == nil:
		return nil
	case ok:
	case f.single:
		l = []any{v}
	default:
		s.Add(path, "must be a list", v)
		return nil
	}
	one := f
	one.typ, one.hasDefault = f.typ.Elem(), false
	out := make([]any, 0, len(l))
	for i, e := range l {
		p := Element(path, i)
		if !ok {
			p = path
		}
		if e == nil && !s.bad[p] {
			s.Add(p, "is an empty element", nil)
			continue
		}
		if c := s.value(p, one, e, ""); c != nil {
			out = append(out, c)
		}
	}
	if len(out) == 0 {
		return nil // one spelling of nothing: equal configurations compare equal
	}
	return out
}

// entries completes a mapping whose keys are the operator's.
func (s shaper) entries(path string, f field, v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		if v != nil {
			s.Add(path, "must be a mapping", v)
		}
		return nil
	}
	one := f
	one.typ, one.hasDefault = f.typ.Elem(), false
	out := make(map[string]any, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if m[k] == nil {
			s.Add(Join(path, k), "has no value", nil)
			continue
		}
		if c := s.value(Join(path, k), one, m[k], ""); c != nil {
			out[k] = c
		}
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// overlay takes a mapping as it is: it is checked once it is laid over what it
// changes.
func (s shaper) overlay(path string, v any) any {
	m, ok := v.(map[string]any)
	if !ok && v != nil {
		s.Add(path, "must be a mapping", v)
	}
	if len(m) == 0 {
		return nil
	}
	return m
}

// outside says how a value of the right type breaks the field's bounds, or "".
func (f *field) outside(t reflect.Type, v any) string {
	if len(f.enum) > 0 && !slices.Contains(f.enum, fmt.Sprint(v)) {
		return f.choose(fmt.Sprint(v))
	}
	n, ok := number(t, v)
	if !ok {
		return ""
	}
	switch {
	case math.IsNaN(n) || math.IsInf(n, 0):
		return "must be a finite number"
	case n < f.bounds.min:
		return "must be at least " + f.bounds.minText
	case f.bounds.below && n >= f.bounds.max:
		return "must be below " + f.bounds.maxText
	case n > f.bounds.max:
		return "must be at most " + f.bounds.maxText
	}
	return ""
}

// choose names the words of a closed set, and the one that is meant perhaps.
func (f *field) choose(word string) string {
	message := "must be " + OneOf(f.enum)
	if n := Nearest(word, f.enum); n != "" {
		message += fmt.Sprintf(", did you mean %q?", n)
	}
	return message
}

// number returns the magnitude of v where bounds apply to it.
func number(t reflect.Type, v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		if isText(t) && t.Kind() == reflect.Int64 || t == reflect.TypeFor[Count]() && v != "auto" {
			return magnitude(t, v), true
		}
	}
	return 0, false
}

// scalar returns v as a string, bool, int64 or float64 that decodes into t, or
// says why it cannot.
func scalar(t reflect.Type, v any) (any, string) {
	switch v.(type) {
	case map[string]any:
		return nil, "must be one value, not a mapping"
	case []any:
		return nil, "must be one value, not a list"
	}
	if isText(t) {
		return textual(t, v)
	}
	switch t.Kind() {
	case reflect.String:
		if s, ok := v.(string); ok {
			return s, ""
		}
		return nil, "must be text; put it in quotes"
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			return b, ""
		}
		return nil, "must be true or false"
	case reflect.Int:
		return integer(v)
	default:
		return float(v)
	}
}

// textual checks v against a type that reads text.
func textual(t reflect.Type, v any) (any, string) {
	if _, ok := v.(bool); ok {
		return nil, "must not be true or false"
	}
	s, ok := v.(string)
	if !ok {
		s = strings.TrimSuffix(fmt.Sprint(v), ".0")
	}
	u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](reflect.New(t))
	if !ok {
		return nil, "cannot be read"
	}
	if err := u.UnmarshalText([]byte(s)); err != nil {
		return nil, err.Error()
	}
	return s, ""
}

func integer(v any) (any, string) {
	switch v := v.(type) {
	case int64:
		return v, ""
	case int:
		return int64(v), ""
	case uint64:
		if v <= math.MaxInt64 {
			return int64(v), ""
		}
		return nil, "is too large"
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), ""
		}
	}
	return nil, "must be a whole number"
}

func float(v any) (any, string) {
	switch v := v.(type) {
	case int64:
		return float64(v), ""
	case int:
		return float64(v), ""
	case uint64:
		return float64(v), ""
	case float64:
		return v, ""
	}
	return nil, "must be a number"
}

// fromText returns the plain value that text spells for type t: what a default
// tag or an environment variable means. Text that does not fit stays text, and
// is then reported like a value in the file.
func fromText(t reflect.Type, text string) any {
	if isText(t) {
		return text
	}
	switch t.Kind() {
	case reflect.Bool:
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	case reflect.Int:
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case reflect.Float64:
		if n, err := strconv.ParseFloat(text, 64); err == nil {
			return n
		}
	default:
	}
	return text
}

// OneOf renders words for a sentence: a, b or c.
func OneOf(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}
