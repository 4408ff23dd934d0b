package config

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

// Problem is one fault of a configuration.
type Problem struct {
	// File is the name the content came under, or $NAME when an environment
	// variable is at fault.
	File string `json:"file"`
	// Line in File, from 1; 0 = none.
	Line int `json:"line,omitempty"`
	// Path of the key, such as ingresses[0].partitions.max; empty when the
	// document as a whole is at fault.
	Path string `json:"path,omitempty"`
	// Message says what is wrong.
	Message string `json:"message"`
	// Value is what stands there, shortened; empty = not shown.
	Value string `json:"value,omitempty"`
}

// String renders p as FILE:LINE: key.path: what is wrong (value).
func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.File)
	if p.Line > 0 {
		b.WriteString(":" + strconv.Itoa(p.Line))
	}
	b.WriteString(": ")
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	if p.Value != "" {
		b.WriteString(" (" + p.Value + ")")
	}
	return b.String()
}

// Problems is every fault of one configuration, ordered by file and line. It
// is the error of [Parse] and [Load] for content that could be read but is not
// valid.
type Problems []Problem

// Error renders one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// report gathers problems while a configuration is read.
type report struct {
	file  string
	lines map[string]int    // line by path
	envs  map[string]string // variable by path
	bad   map[string]bool   // paths whose value was replaced by a default
	seen  map[Problem]bool
	list  Problems
	left  int // problems beyond maxProblems
}

func newReport(file string) *report {
	return &report{
		file: file, lines: map[string]int{}, envs: map[string]string{},
		bad: map[string]bool{}, seen: map[Problem]bool{},
	}
}

// add records that the value at path is wrong.
func (r *report) add(path, message string, value any) {
	r.bad[path] = true
	file, line := r.origin(path)
	r.put(Problem{File: file, Line: line, Path: path, Message: message, Value: r.show(path, value)})
}

// relate records a problem between several keys, the first of which is named.
// When one of them is known to be bad already, a second complaint about its
// replacement would mislead.
func (r *report) relate(message string, value any, paths ...string) {
	if slices.ContainsFunc(paths, func(p string) bool { return r.bad[p] }) {
		return
	}
	file, line := r.origin(paths[0])
	r.put(Problem{File: file, Line: line, Path: paths[0], Message: message, Value: r.show(paths[0], value)})
}

// atLine records a problem of the text itself.
func (r *report) atLine(line int, path, message string) {
	r.put(Problem{File: r.file, Line: line, Path: path, Message: message})
}

// variable records a problem of an environment variable.
func (r *report) variable(name, path, message string, value any) {
	r.put(Problem{File: "$" + short(name), Path: path, Message: message, Value: r.show(path, value)})
}

// show renders the value at path. What lies in or below a key that holds secrets,
// or may hold them, is never shown, whatever shape it was written in.
func (*report) show(path string, value any) string {
	if value != nil && (inside(path, "tracing.headers") || inside(path, "tracing.endpoint")) {
		return redacted
	}
	return show(value)
}

func (r *report) put(p Problem) {
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

// origin returns where path, or the nearest of its parents, was written.
func (r *report) origin(path string) (string, int) {
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

// problems returns what was gathered as an error, or nil.
func (r *report) problems() error {
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

// join adds a key to a path. Keys that would be ambiguous are quoted.
func join(path, key string) string {
	if strings.ContainsAny(key, ".:/[]\" ") || key == "" || strconv.Quote(key) != `"`+key+`"` {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// element adds an index to a path.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

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
		s = redactURL(v)
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
