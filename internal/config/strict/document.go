package strict

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// document turns YAML text into plain values: map[string]any, []any, string,
// bool, int64, uint64, float64, nil. It implements [koanf.Parser]. Faults go
// to the report; what is faulty is left out.
type document struct {
	*Report
	anchors    map[string]ast.Node
	values     int
	unreadable bool // nothing of it can be used
}

// Unmarshal implements [koanf.Parser]. It never returns an error; the report
// has them.
func (d *document) Unmarshal(b []byte) (map[string]any, error) {
	root := d.parse(b)
	if root == nil {
		d.unreadable = true
		return map[string]any{}, nil
	}
	m, ok := d.convert(root, "", 0).(map[string]any)
	if !ok {
		d.unreadable = true
		d.AtLine(line(root), "", "must be a mapping of keys")
		return map[string]any{}, nil
	}
	if d.values > maxValues {
		d.unreadable = true
	}
	return m, nil
}

// Marshal implements [koanf.Parser]; nothing is written through it.
func (*document) Marshal(map[string]any) ([]byte, error) {
	return nil, errors.New("config: documents are only read")
}

// parse returns the body of the only document in b, or nil after a report.
func (d *document) parse(b []byte) (body ast.Node) {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if !d.readable(b) {
		return nil
	}
	// The parser is not ours and a half-written file may hold anything: a
	// panic in it must not take the daemon with it.
	defer func() {
		if recover() != nil {
			d.AtLine(1, "", "is not valid YAML")
			body = nil
		}
	}()
	tokens := lexer.Tokenize(string(b))
	if !d.bounded(tokens) {
		return nil
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		d.syntax(err, b)
		return nil
	}
	return d.single(file)
}

// readable checks what can be said without parsing.
func (d *document) readable(b []byte) bool {
	switch {
	case len(b) > MaxBytes:
		d.AtLine(0, "", fmt.Sprintf("is larger than %s", Size(MaxBytes)))
	case !utf8.Valid(b):
		line := 1
		for rest := b; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			if r == utf8.RuneError && n == 1 {
				break
			}
			if r == '\n' {
				line++
			}
			rest = rest[n:]
		}
		d.AtLine(line, "", "is not valid UTF-8")
	case bytes.IndexByte(b, 0) >= 0:
		d.AtLine(1+bytes.Count(b[:bytes.IndexByte(b, 0)], []byte("\n")), "", "holds a NUL byte")
	case len(bytes.TrimSpace(b)) == 0:
		d.AtLine(1, "", "is empty")
	default:
		return true
	}
	return false
}

// syntax reports what the parser said, with its line.
func (d *document) syntax(err error, text []byte) {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		first, _, _ := strings.Cut(err.Error(), "\n")
		d.AtLine(1, "", "is not valid YAML: "+first)
		return
	}
	at := e.GetToken().Position.Line
	d.AtLine(at, "", "is not valid YAML: "+strings.Join(strings.Fields(e.GetMessage()), " ")+cure(text, at))
}

// cure tells how to mend what most often keeps a text from being YAML: a tab in
// the indentation, or a line that lines up with none above it. It returns ""
// where it knows nothing.
func cure(text []byte, at int) string {
	var open []int // indentations that a line may go back to
	for i, line := range bytes.Split(text, []byte("\n")) {
		body := bytes.TrimLeft(line, " \t")
		indent := len(line) - len(body)
		switch {
		case len(body) == 0 || body[0] == '#':
			continue
		case bytes.IndexByte(line[:indent], '\t') >= 0:
			return fmt.Sprintf(": line %d is indented with a tab; use spaces", i+1)
		}
		for len(open) > 0 && open[len(open)-1] > indent {
			open = open[:len(open)-1]
			if i+1 == at && (len(open) == 0 || open[len(open)-1] < indent) {
				return fmt.Sprintf(": it is indented by %d spaces and lines up with nothing above it", indent)
			}
		}
		if i+1 >= at {
			return ""
		}
		open = appendNew(open, indent)
		if item := bytes.TrimLeft(body, "- "); body[0] == '-' && len(item) > 0 {
			open = appendNew(open, indent+len(body)-len(item))
		}
	}
	return ""
}

// appendNew appends n unless it is the last already.
func appendNew(list []int, n int) []int {
	if len(list) > 0 && list[len(list)-1] == n {
		return list
	}
	return append(list, n)
}

// single returns the body of the only document of the file.
func (d *document) single(file *ast.File) ast.Node {
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			d.AtLine(doc.Body.GetToken().Position.Line, "", "begins a second document; only one is read")
			return nil
		}
		body = doc.Body
	}
	switch {
	case body == nil:
		d.AtLine(1, "", "is empty")
	case body.Type() == ast.NullType:
		d.AtLine(1, "", "is empty")
		return nil
	}
	return body
}

// convert turns a node into a plain value and notes the line of each path.
func (d *document) convert(n ast.Node, path string, depth int) any {
	if d.values++; d.values > maxValues {
		if d.values == maxValues+1 {
			d.AtLine(line(n), path, fmt.Sprintf("aliases expand to more than %d values", maxValues))
		}
		return nil
	}
	if depth > maxDepth {
		d.AtLine(line(n), "", fmt.Sprintf("is nested deeper than %d levels", maxDepth))
		return nil
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		return d.mapping(n, path, depth)
	case *ast.SequenceNode:
		list := make([]any, 0, min(len(n.Values), maxValues))
		for i, v := range n.Values {
			p := Element(path, i)
			d.lines[p] = line(v)
			list = append(list, d.convert(v, p, depth+1))
		}
		return list
	case *ast.AnchorNode:
		v := d.convert(n.Value, path, depth)
		d.anchors[n.Name.String()] = n.Value
		return v
	case *ast.AliasNode:
		target, ok := d.anchors[n.Value.String()]
		if !ok {
			d.AtLine(line(n), path, "refers to an anchor that is not defined before it: *"+show(n.Value.String()))
			d.bad[path] = true
			return nil
		}
		return d.convert(target, path, depth+1)
	default:
		return d.scalar(n, path)
	}
}

// mapping converts a mapping; keys are text, each at most once.
func (d *document) mapping(n *ast.MappingNode, path string, depth int) any {
	m := make(map[string]any, min(len(n.Values), maxValues))
	own := map[string]int{} // lines of the keys written here, which merged ones must not hide
	var merged []map[string]any
	for _, v := range n.Values {
		if v.Key.IsMergeKey() {
			merged = append(merged, d.merge(v, path, depth)...)
			continue
		}
		key, ok := keyText(v.Key)
		if !ok {
			d.AtLine(line(v.Key), path, "has a key that is not text")
			continue
		}
		p := Join(path, key)
		if _, twice := m[key]; twice {
			d.AtLine(line(v.Key), p, fmt.Sprintf("is written twice, first in line %d", own[p]))
			continue
		}
		d.lines[p], own[p] = line(v.Key), line(v.Key)
		m[key] = d.convert(v.Value, p, depth+1)
	}
	maps.Copy(d.lines, own)
	for _, from := range merged {
		for k, v := range from {
			if _, written := m[k]; !written {
				m[k] = v
			}
		}
	}
	return m
}

// merge returns the mappings that a << key brings in, the first one strongest.
func (d *document) merge(v *ast.MappingValueNode, path string, depth int) []map[string]any {
	switch from := d.convert(v.Value, path, depth+1).(type) {
	case map[string]any:
		return []map[string]any{from}
	case []any:
		var all []map[string]any
		for _, e := range from {
			if m, ok := e.(map[string]any); ok {
				all = append(all, m)
			}
		}
		if len(all) == len(from) {
			return all
		}
	}
	d.AtLine(line(v.Key), path, "merges something that is not a mapping with <<")
	return nil
}

// scalar converts a leaf.
func (d *document) scalar(n ast.Node, path string) any {
	switch n := n.(type) {
	case *ast.NullNode:
		return nil
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		if written := n.GetToken().Value; zeroLed(written) {
			d.Put(Problem{
				File: d.file, Line: line(n), Path: path, Value: written,
				Message: "begins with a zero, which YAML reads as octal in one version and as decimal in another; leave it out",
			})
			d.bad[path] = true
			return nil
		}
		return n.Value
	case *ast.FloatNode:
		return n.Value
	case *ast.InfinityNode:
		return n.Value
	case *ast.NanNode:
		return math.NaN()
	case *ast.LiteralNode:
		return n.Value.Value
	case *ast.StringNode:
		return plain(n)
	case *ast.TagNode:
		d.AtLine(line(n), path, "has a YAML tag, which this configuration does not use")
	default:
		d.AtLine(line(n), path, "is not a value")
	}
	d.bad[path] = true
	return nil
}

// zeroLed reports whether a number is written with a needless zero in front, such
// as 010, which is 8 to some and 10 to others.
func zeroLed(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'
}

// plain returns the text of n, or the number it spells where the parser is
// narrower than YAML 1.2: it takes 1e3 and very large integers for text.
func plain(n *ast.StringNode) any {
	if n.Token.Type != token.StringType || n.Value == "" || strings.Trim(n.Value, "0123456789+-.eE") != "" {
		return n.Value
	}
	if f, err := strconv.ParseFloat(n.Value, 64); err == nil {
		return f
	}
	return n.Value
}

// keyText returns a mapping key as text.
func keyText(k ast.MapKeyNode) (string, bool) {
	switch k := k.(type) {
	case *ast.StringNode:
		return k.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return k.GetToken().Value, true
	default:
		return "", false
	}
}

func line(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 1
}
