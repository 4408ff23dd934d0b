package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"

	"github.com/admitd/admitd/internal/config"
)

// model is the configuration as its source describes it.
type model map[string]*object

// object is one struct.
type object struct {
	name   string
	doc    string
	fields []field
}

// field is one key of an object.
type field struct {
	name string
	doc  string
	typ  string // Go type of the value: string, Duration, Limit, …
	form form
	tag  reflect.StructTag
}

// form is how values of the type are held together.
type form int

const (
	one form = iota
	list
	dictionary
)

// read parses the package in dir, tests left out.
func read(dir string) (model, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, fmt.Errorf("listing: %w", err)
	}
	m := model{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		src, err := os.ReadFile(name) //nolint:gosec // the developer's own source
		if err != nil {
			return nil, fmt.Errorf("reading: %w", err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, src, parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("parsing: %w", err)
		}
		m.file(f)
	}
	if m["Config"] == nil {
		return nil, errors.New("no type Config in " + dir)
	}
	return m, nil
}

func (m model) file(f *ast.File) {
	for _, d := range f.Decls {
		gd, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, s := range gd.Specs {
			ts, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := ts.Type.(*ast.StructType); ok && keyed(st, ts.Name.Name) {
				m[ts.Name.Name] = &object{name: ts.Name.Name, doc: sentence(text(gd.Doc)), fields: keys(st)}
			}
		}
	}
}

// keyed reports whether the struct is part of the configuration: exported, and
// all its fields are keys.
func keyed(st *ast.StructType, name string) bool {
	for _, f := range st.Fields.List {
		if f.Tag == nil || !strings.Contains(f.Tag.Value, "yaml:") {
			return false
		}
	}
	return ast.IsExported(name) && len(st.Fields.List) > 0
}

func keys(st *ast.StructType) []field {
	var out []field
	for _, f := range st.Fields.List {
		raw, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			continue
		}
		tag := reflect.StructTag(raw)
		k := field{name: tag.Get("yaml"), doc: text(f.Doc), tag: tag}
		k.typ, k.form = typeOf(f.Type)
		out = append(out, k)
	}
	return out
}

func typeOf(e ast.Expr) (string, form) {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeOf(e.X)
	case *ast.ArrayType:
		name, _ := typeOf(e.Elt)
		return name, list
	case *ast.MapType:
		name, _ := typeOf(e.Value)
		return name, dictionary
	case *ast.Ident:
		return e.Name, one
	default:
		return "", one
	}
}

// text returns a comment as one paragraph.
func text(c *ast.CommentGroup) string {
	return strings.Join(strings.Fields(c.Text()), " ")
}

// sentence returns the first sentence: what follows is for readers of the code.
func sentence(s string) string {
	if first, _, more := strings.Cut(s, ". "); more {
		return first + "."
	}
	return s
}

// selector returns the key that decides which others belong, or nil.
func (o *object) selector() *field {
	for i := range o.fields {
		if o.fields[i].tag.Get("selects") != "" {
			return &o.fields[i]
		}
	}
	return nil
}

// word returns the field that a word in place of the mapping sets, or nil.
func (o *object) word() *field {
	for i := range o.fields {
		if o.fields[i].tag.Get("word") != "" {
			return &o.fields[i]
		}
	}
	return nil
}

// words returns the words of a tag.
func (f *field) words(tag string) []string { return config.Words(f.tag.Get(tag)) }
