package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
	"unicode"
)

// withdrawn are pictures that once stood for parts of the program, with the word of
// the field that took the place of each.
var withdrawn = map[string]string{
	"agenda":     "event queue",
	"club":       "fleet member",
	"corridor":   "relay",
	"council":    "policies",
	"crew":       "class heap",
	"culprit":    "dominant shape",
	"dismissals": "early answers",
	"doorstep":   "fast path",
	"doorsteps":  "fast path's connections",
	"dormitory":  "idle sessions",
	"ebb":        "release of memory",
	"farewell":   "last refusals",
	"glimpse":    "peek",
	"hearing":    "reader",
	"helm":       "threshold controller",
	"lastcall":   "drain",
	"orphan":     "abandoned exchange",
	"orphans":    "abandoned exchanges",
	"plight":     "fallback",
	"porch":      "server options",
	"purse":      "buckets",
	"roster":     "partition table",
	"senses":     "signal readers",
	"steward":    "runner",
	"strays":     "unanswered connections",
	"tenure":     "held time",
	"tide":       "levels",
	"turnstile":  "gate",
	"usher":      "refuser",
	"verger":     "refusing handler",
	"yard":       "simulated gate",
	"yawn":       "idle",
}

// Packages, files and what they declare have the words of the field: a picture has
// to be learned by everybody who reads it.
func TestWithdrawnWordsStayAway(t *testing.T) {
	complain := func(where, name string) {
		for _, word := range wordsOf(name) {
			if instead, ok := withdrawn[word]; ok {
				t.Errorf("%s: %s has the word %q; say %s", where, name, word, instead)
			}
		}
	}
	for _, p := range packages(t) {
		complain(p.dir, path.Base(p.dir))
		for _, f := range p.files {
			complain(f.path, strings.TrimSuffix(path.Base(f.path), ".go"))
			tree, err := parser.ParseFile(token.NewFileSet(), root+"/"+f.path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(tree, func(n ast.Node) bool {
				switch d := n.(type) {
				case *ast.TypeSpec:
					complain(f.path, d.Name.Name)
				case *ast.FuncDecl:
					complain(f.path, d.Name.Name)
				case *ast.Field:
					for _, name := range d.Names {
						complain(f.path, name.Name)
					}
				case *ast.ValueSpec:
					for _, name := range d.Names {
						complain(f.path, name.Name)
					}
				}
				return true
			})
		}
	}
}

// wordsOf splits a name where its words begin, in lower case: camelCase, snake_case.
func wordsOf(name string) []string {
	return strings.FieldsFunc(strings.Map(unicode.ToLower, spaced(name)), func(r rune) bool { return r == ' ' || r == '_' })
}

// spaced puts a space before each word of a name but the first.
func spaced(name string) string {
	var b strings.Builder
	runes := []rune(name)
	for i, r := range runes {
		if i > 0 && unicode.IsUpper(r) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
			b.WriteByte(' ')
		}
		b.WriteRune(r)
	}
	return b.String()
}
