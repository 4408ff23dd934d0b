package arch_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The stops of docs/flow.md, in the order in which a request comes to them.
var stops = []string{"accept", "read", "identify", "pay", "hold", "forward", "judge", "end"}

// symbol is a function of the house: a name, or a type and a name.
type symbol struct{ path, name string }

// last is the name by which the symbol is called.
func (s symbol) last() string { return s.name[strings.LastIndex(s.name, ".")+1:] }

// isMethod reports whether it is called with something before the dot.
func (s symbol) isMethod() bool { return strings.Contains(s.name, ".") }

// link is a link in docs/flow.md to a source file, with the symbols that stand
// behind it.
var link = regexp.MustCompile("\\]\\(\\.\\./([a-z0-9_/]+\\.go)\\)((?:[ ,`]*`[A-Za-z]+(?:\\.[A-Za-z]+)?`)*)")

// What the tables of docs/flow.md name is where they say.
func TestFlowNamesWhatIsThere(t *testing.T) {
	doc := readFlow(t)
	found := 0
	for _, m := range link.FindAllStringSubmatch(doc, -1) {
		if _, err := os.Stat(filepath.Join(root, m[1])); err != nil {
			t.Errorf("docs/flow.md points at %s, which is not there", m[1])
			continue
		}
		for _, name := range strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune(" ,`", r) }) {
			found++
			if declared(t, m[1])[name] == nil {
				t.Errorf("docs/flow.md says that %s stands in %s; it does not", name, m[1])
			}
		}
	}
	if found < 20 {
		t.Errorf("found only %d symbols behind links in docs/flow.md", found)
	}
}

// A function that the tables of shortcuts and of goroutines name stands behind its
// file. One that had gone was named there for long: without a link it was no symbol.
func TestFlowTablesLinkWhatTheyName(t *testing.T) {
	bare := regexp.MustCompile("`[A-Za-z]+\\.[A-Za-z]+`")
	for _, table := range []string{"## Shortcuts", "## Goroutines"} {
		_, rows, ok := strings.Cut(readFlow(t), table)
		if !ok {
			t.Fatalf("docs/flow.md has no %q", table)
		}
		rows, _, _ = strings.Cut(rows, "\n## ")
		for _, name := range bare.FindAllString(link.ReplaceAllString(unlinked(rows), ""), -1) {
			t.Errorf("docs/flow.md names %s below %q, without a link to its file before it", name, table)
		}
	}
}

// unlinked is text without the names of files that are linked.
func unlinked(text string) string {
	return regexp.MustCompile("\\[`[a-z0-9_/]+\\.go`\\]").ReplaceAllString(text, "[]")
}

// The chain of docs/flow.md is how a request goes: each symbol is declared where
// it says, and is reached by calls that go down the page and never back to a
// stop before.
func TestFlowIsTheWayOfARequest(t *testing.T) {
	ways := chains(t)
	if len(ways) < 4 {
		t.Fatalf("docs/flow.md has the chains of %d protocols", len(ways))
	}
	for protocol, way := range ways {
		for _, s := range unreached(t, way) {
			t.Errorf("%s: nothing of the chain before calls %s of %s", protocol, s.name, s.path)
		}
	}
}

// The test of the chain can fail: a symbol that nobody calls, and one that only
// a later stop calls, are found.
func TestFlowFindsABrokenChain(t *testing.T) {
	end := step{symbol: symbol{"limiter/permit.go", "Permit.End"}, stop: slices.Index(stops, "end"), begins: true}
	for _, lost := range []step{
		{symbol: symbol{"limiter/bucket/bucket.go", "Bucket.Refund"}, stop: end.stop},
		{symbol: symbol{"limiter/partition.go", "partition.end"}, stop: end.stop - 1},
	} {
		if got := unreached(t, []step{end, lost}); len(got) != 1 {
			t.Errorf("unreached(Permit.End, %s at %s) = %v; want it", lost.name, stops[lost.stop], got)
		}
	}
}

// step is a symbol of a chain.
type step struct {
	symbol
	stop   int
	begins bool // somebody outside of the chain calls it
}

// unreached returns the steps to which no calls lead from those that begin.
func unreached(t *testing.T, way []step) (lost []symbol) {
	t.Helper()
	reached := make([]bool, len(way))
	var visit func(i int)
	visit = func(i int) {
		if reached[i] {
			return
		}
		reached[i] = true
		body := declared(t, way[i].path)[way[i].name]
		if body == nil {
			t.Errorf("docs/flow.md says that %s stands in %s; it does not", way[i].name, way[i].path)
			return
		}
		for j, next := range way {
			if next.stop >= way[i].stop && calls(body, next.symbol) {
				visit(j)
			}
		}
	}
	for i := range way {
		if way[i].begins {
			visit(i)
		}
	}
	for i, ok := range reached {
		if !ok {
			lost = append(lost, way[i].symbol)
		}
	}
	return lost
}

// calls reports whether body names s as something to call. Which type a method
// is called on is not looked at: that is the compiler's part.
func calls(body ast.Node, s symbol) (found bool) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			found = found || n.Sel.Name == s.last()
			_, plain := n.X.(*ast.Ident)
			return !found && !plain
		case *ast.Ident:
			found = found || !s.isMethod() && n.Name == s.last()
		}
		return !found
	})
	return found
}

// declared returns the functions of a file, by name and by type and name.
func declared(t *testing.T, file string) map[string]ast.Node {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	all := map[string]ast.Node{}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := f.Name.Name
		if f.Recv != nil {
			name = receiver(f.Recv.List[0].Type) + "." + name
		}
		all[name] = f.Body
	}
	return all
}

// chains reads the chain of docs/flow.md: by protocol, the whole way of one
// request, with what it shares with others.
func chains(t *testing.T) map[string][]step {
	t.Helper()
	_, text, _ := strings.Cut(readFlow(t), "## The chain, call by call")
	_, text, _ = strings.Cut(text, "```text\n")
	text, _, ok := strings.Cut(text, "\n```")
	if !ok {
		t.Fatal("docs/flow.md has no chain")
	}
	blocks, title := map[string][]step{}, ""
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case !strings.HasPrefix(line, " "):
			title = strings.TrimSpace(line)
		default:
			stop := slices.Index(stops, words[0])
			if stop < 0 || len(words) < 3 {
				t.Fatalf("docs/flow.md: %q is not a stop, a file and its symbols", line)
			}
			for _, w := range words[2:] {
				name, begins := strings.CutPrefix(w, "*")
				blocks[title] = append(blocks[title], step{symbol{words[1], name}, stop, begins})
			}
		}
	}
	ways := map[string][]step{}
	for title, own := range blocks {
		protocol, wire := strings.CutSuffix(title, " (corridor)")
		if title == "every protocol" || title == "corridor" || title == "limiter" {
			continue
		}
		way := slices.Clone(blocks["every protocol"])
		if wire {
			way = append(way, blocks["corridor"]...)
		}
		ways[protocol] = append(append(way, own...), blocks["limiter"]...)
	}
	return ways
}

func readFlow(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "docs/flow.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Files of one name are the same stop in every gate, and the stops that decide
// by what a message says do nothing besides: they start no goroutine, read no
// clock and hold no lock.
func TestNamesMeanOneStop(t *testing.T) {
	same := []struct {
		file string
		pure bool
		what *regexp.Regexp // a function that has to be there
	}{
		{"identify.go", true, regexp.MustCompile(`(?i)identif|\.request$|partitionKey$`)},
		{"refuse.go", false, regexp.MustCompile(`(?i)refus`)},
		{"judge.go", true, regexp.MustCompile(`(?i)judge`)},
		{"frame.go", false, regexp.MustCompile(`(?i)head|size`)},
		{"options.go", false, regexp.MustCompile(`(?i)default|validate|parse`)},
	}
	gates, err := filepath.Glob(filepath.Join(root, "internal/ingress/*gate"))
	if err != nil || len(gates) < 3 {
		t.Fatalf("found the gates %q, %v", gates, err)
	}
	for _, gate := range gates {
		for _, s := range same {
			file := path.Join("internal/ingress", filepath.Base(gate), s.file)
			if s.file == "frame.go" && filepath.Base(gate) == "httpgate" {
				file = "internal/ingress/httpgate/upstream/frame.go" // of a request, net/http knows
			}
			if _, err := os.Stat(filepath.Join(root, file)); err != nil {
				t.Errorf("%s is missing: the same stop has the same file in every gate", file)
				continue
			}
			named := false
			for name, body := range declared(t, file) {
				named = named || s.what.MatchString(name)
				if why := impure(body); s.pure && why != "" {
					t.Errorf("%s: %s %s; what a message means is told by its bytes alone", file, name, why)
				}
			}
			if !named {
				t.Errorf("%s declares nothing that matches %s", file, s.what)
			}
		}
	}
}

// impure says what a function does besides computing, "" when nothing.
func impure(body ast.Node) (why string) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			why = "starts a goroutine"
		case *ast.SelectorExpr:
			x, _ := n.X.(*ast.Ident)
			switch {
			case x != nil && x.Name == "time" && slices.Contains([]string{"Now", "Since", "Until", "After", "Sleep", "NewTimer"}, n.Sel.Name):
				why = fmt.Sprintf("reads the clock with time.%s", n.Sel.Name)
			case n.Sel.Name == "Lock" || n.Sel.Name == "RLock":
				why = "takes a lock"
			}
		}
		return why == ""
	})
	return why
}

// receiver returns the name of the type of a method, of which e is the receiver's
// type; "" when it cannot be one.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
