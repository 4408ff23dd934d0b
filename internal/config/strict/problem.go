package strict

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Bounds on what a report of problems may hold.
const (
	maxProblems = 200
	maxValue    = 80 // bytes of a value that are shown
)

// Report gathers problems while a configuration is read.
type Report struct {
	file  string
	o     Options
	lines map[string]int    // line by path
	envs  map[string]string // variable by path
	bad   map[string]bool   // paths whose value was replaced by a default
	seen  map[Problem]bool
	list  Problems
	left  int // problems beyond maxProblems
	zeros []string
}

// Zeros returns the paths where 0 was written for what has a word that says it, in fields with
// the tag zero:"word", once the content is decoded.
func (r *Report) Zeros() []string { return r.zeros }

// Options are what a [Report] knows of the structs that it is about.
type Options struct {
	// Tags expands the words of their tags.
	Tags Tags
	// Secrets are the paths of keys whose values may hold secrets, or anything
	// below them; they are never shown.
	Secrets []string
}

// NewReport returns a report without a problem. file is the name that the content
// came under.
func NewReport(file string, o Options) *Report {
	return &Report{
		file: file, o: o, lines: map[string]int{}, envs: map[string]string{},
		bad: map[string]bool{}, seen: map[Problem]bool{},
	}
}

// Add records that the value at path is wrong.
func (r *Report) Add(path, message string, value any) {
	r.bad[path] = true
	file, line := r.Origin(path)
	r.Put(Problem{File: file, Line: line, Path: path, Message: message, Value: r.show(path, value)})
}

// IsBad reports whether what stands at path is known to be wrong, and was replaced
// by a default.
func (r *Report) IsBad(path string) bool { return r.bad[path] }

// Relate records a problem between several keys, the first of which is named.
// When one of them is known to be bad already, a second complaint about its
// replacement would mislead.
func (r *Report) Relate(message string, value any, paths ...string) {
	if slices.ContainsFunc(paths, func(p string) bool { return r.bad[p] }) {
		return
	}
	file, line := r.Origin(paths[0])
	r.Put(Problem{File: file, Line: line, Path: paths[0], Message: message, Value: r.show(paths[0], value)})
}

// AtLine records a problem of the text itself.
func (r *Report) AtLine(line int, path, message string) {
	r.Put(Problem{File: r.file, Line: line, Path: path, Message: message})
}

// variable records a problem of an environment variable.
func (r *Report) variable(name, path, message string, value any) {
	r.Put(Problem{File: "$" + short(name), Path: path, Message: message, Value: r.show(path, value)})
}

// show renders the value at path. What lies in or below a key that holds secrets,
// or may hold them, is never shown, whatever shape it was written in.
func (r *Report) show(path string, value any) string {
	if value != nil && slices.ContainsFunc(r.o.Secrets, func(top string) bool { return inside(path, top) }) {
		return Redacted
	}
	return show(value)
}

// Put records a problem as it is, unless it is known.
func (r *Report) Put(p Problem) {
	p.Path = short(p.Path)
	switch {
	case r.seen[p]:
	case len(r.list) >= maxProblems:
		r.left++
	default:
		r.seen[p] = true
		r.list = append(r.list, p)
	}
}

// Origin returns where path, or the nearest of its parents, was written.
func (r *Report) Origin(path string) (string, int) {
	for p := path; p != ""; p = parent(p) {
		if name, ok := r.envs[p]; ok {
			return "$" + name, 0
		}
		if line, ok := r.lines[p]; ok {
			return r.file, line
		}
	}
	return r.file, 1
}

// Source returns where path itself was written, in words: a file and a line, or a
// variable; "" = nowhere, it has its default.
func (r *Report) Source(path string) string {
	if name, ok := r.envs[path]; ok {
		return "$" + name
	}
	if line, ok := r.lines[path]; ok {
		return r.file + ":" + strconv.Itoa(line)
	}
	return ""
}

// IsWritten reports whether path stands in the text itself.
func (r *Report) IsWritten(path string) bool { return r.lines[path] > 0 }

// IsEmpty reports whether there is no problem so far.
func (r *Report) IsEmpty() bool { return len(r.list) == 0 }

// Err returns what was gathered as an error, or nil.
func (r *Report) Err() error {
	if len(r.list) == 0 {
		return nil
	}
	slices.SortStableFunc(r.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
	if r.left > 0 {
		r.list = append(r.list, Problem{File: r.file, Message: fmt.Sprintf("and %d more problems", r.left)})
	}
	return r.list
}

// parent cuts the last step off a path.
func parent(path string) string {
	if i := strings.LastIndexAny(path, ".["); i > 0 {
		return path[:i]
	}
	return ""
}

// Join adds a key to a path. Keys that would be ambiguous are quoted.
func Join(path, key string) string {
	if strings.ContainsAny(key, ".:/[]\" ") || key == "" || strconv.Quote(key) != `"`+key+`"` {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// Element adds an index to a path.
func Element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// short cuts a path that holds an operator's endless key.
func short(path string) string {
	const most = 300
	if len(path) <= most {
		return path
	}
	return strings.ToValidUTF8(path[:most], "") + "…"
}

// show renders a value for a problem: short, on one line, secrets hidden.
func show(v any) string {
	var s string
	switch v := v.(type) {
	case nil:
		return ""
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list of " + strconv.Itoa(len(v))
	case string:
		s = redactAddress(v)
		if s == "" {
			return `""`
		}
	default:
		s = fmt.Sprint(v)
	}
	if len(s) > maxValue {
		s = strings.ToValidUTF8(s[:maxValue], "") + "…"
	}
	if q := strconv.Quote(s); q != `"`+s+`"` && !strings.Contains(s, `"`) {
		return q
	}
	return s
}
