package strict

import (
	"strconv"
	"strings"
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
// is the error of whoever reads one, for content that could be read but is not
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
