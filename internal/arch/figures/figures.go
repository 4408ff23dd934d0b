// Figures measures the shape of the house; see scripts/figures.sh.
package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/admitd/admitd/internal/arch"
)

// source is one Go file of the main module.
type source struct {
	path  string
	lines int
	test  bool
	text  []byte
}

// shape counts the fields and methods of one type.
type shape struct{ fields, methods int }

func main() {
	all, err := sources()
	if err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
	fmt.Fprintln(os.Stdout, "| figure | aim | now |\n|---|---|---|")
	ways()
	sizes(all)
	packages(all)
	types(all)
	tests(all)
	touched(all)
}

func row(figure, aim, now string) {
	fmt.Fprintf(os.Stdout, "| %s | %s | %s |\n", figure, aim, now)
}

// sources reads every Go file, nested modules left out.
func sources() (all []source, err error) {
	err = filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(p, "go.mod"))
			name := d.Name()
			if p != "." && (nested == nil || strings.HasPrefix(name, ".") || name == "testdata" || name == "bin" || name == "scripts" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") {
			return nil
		}
		b, err := os.ReadFile(p) //nolint:gosec // a tree of our own
		all = append(all, source{filepath.ToSlash(p), bytes.Count(b, []byte("\n")), strings.HasSuffix(p, "_test.go"), b})
		return err
	})
	return all, err
}

// ways counts the files that docs/flow.md names on the way of a request.
func ways() {
	b, err := os.ReadFile("docs/flow.md")
	if err != nil {
		panic(err)
	}
	blocks := chainOf(string(b))
	var own, whole []string
	room := regexp.MustCompile(`^internal/ingress/[a-z]+gate/[a-z]+/`) // of a gate's own
	for _, title := range slices.Sorted(maps.Keys(blocks)) {
		name, wire := strings.CutSuffix(title, " (corridor)")
		if title == "every protocol" || title == "corridor" || title == "limiter" {
			continue
		}
		files, mine, inRooms := maps.Clone(blocks[title]), 0, 0
		for f := range files {
			switch {
			case room.MatchString(f):
				inRooms++
			case strings.HasPrefix(f, "internal/ingress/") && strings.Contains(f, "gate/"):
				mine++
			}
		}
		maps.Copy(files, blocks["every protocol"])
		maps.Copy(files, blocks["limiter"])
		if wire {
			maps.Copy(files, blocks["corridor"])
		}
		own = append(own, fmt.Sprintf("%s %d + %d", name, mine, inRooms))
		whole = append(whole, fmt.Sprintf("%s %d", name, len(files)))
	}
	row("files on the way of an admitted request, of the protocol's own: in its gate + in the rooms below it", "≤ 8", strings.Join(own, ", "))
	row("the same with the shared ones", "≤ 16", strings.Join(whole, ", "))
}

// chainOf returns the files of each way in the chain of docs/flow.md, by title.
func chainOf(flow string) map[string]map[string]bool {
	_, chain, _ := strings.Cut(flow, "## The chain, call by call")
	_, chain, _ = strings.Cut(chain, "```text\n")
	chain, _, _ = strings.Cut(chain, "\n```")
	blocks, title := map[string]map[string]bool{}, ""
	for line := range strings.Lines(chain) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case !strings.HasPrefix(line, " "):
			title = strings.TrimSpace(line)
			blocks[title] = map[string]bool{}
		default:
			blocks[title][words[1]] = true
		}
	}
	return blocks
}

// sizes tells how long source files are.
func sizes(all []source) {
	var lines []int
	long := 0
	for _, s := range all {
		if !s.test {
			lines = append(lines, s.lines)
			if s.lines > 300 {
				long++
			}
		}
	}
	slices.Sort(lines)
	row("lines of a source file: median, p90", "≤ 120, ≤ 250", fmt.Sprintf("%d, %d (of %d files, %d above 300)", lines[len(lines)/2], lines[len(lines)*9/10], len(lines), long))
}

// packages lists those of many files.
func packages(all []source) {
	n := map[string]int{}
	for _, s := range all {
		if !s.test {
			n[path.Dir(s.path)]++
		}
	}
	var many []string
	for _, dir := range slices.Sorted(maps.Keys(n)) {
		if n[dir] > 18 {
			many = append(many, fmt.Sprintf("%s %d", dir, n[dir]))
		}
	}
	row("packages of more than 18 files", "none", orNone(many))
}

// types lists those of many fields or methods. Options and tables of keys and
// of counts are long by nature: structs of hardly a method are not counted.
func types(all []source) {
	shapes := map[string]*shape{}
	for _, s := range all {
		if s.test {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), s.path, s.text, parser.SkipObjectResolution)
		if err != nil {
			panic(err)
		}
		for _, d := range f.Decls {
			measure(d, func(name string) *shape {
				key := path.Dir(s.path) + "." + name
				if shapes[key] == nil {
					shapes[key] = &shape{}
				}
				return shapes[key]
			})
		}
	}
	var many []string
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		s := shapes[name]
		if !strings.HasSuffix(name, "Options") && (s.methods > 3 && s.fields > 16 || s.methods > 20) {
			many = append(many, fmt.Sprintf("%s %d + %d", name, s.fields, s.methods))
		}
	}
	row("types of more than 16 fields or 20 methods (options and tables left out)", "none", orNone(many))
}

// measure adds what a declaration says of types.
func measure(d ast.Decl, of func(name string) *shape) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			of(arch.Receiver(d.Recv.List[0].Type)).methods++
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			t, ok := spec.(*ast.TypeSpec)
			if !ok {
				continue
			}
			if st, ok := t.Type.(*ast.StructType); ok {
				of(t.Name.Name).fields = st.Fields.NumFields()
			}
		}
	}
}

// tests compares lines of tests and of sources; what is below a room is of it.
func tests(all []source) {
	var out []string
	for _, room := range []string{"limiter", "internal/config", "internal/lab", ""} {
		var test, src int
		for _, s := range all {
			if room != "" && !strings.HasPrefix(s.path, room+"/") {
				continue
			}
			if s.test {
				test += s.lines
			} else {
				src += s.lines
			}
		}
		if room == "" {
			room = "all"
		}
		out = append(out, fmt.Sprintf("%s %.2f", room, float64(test)/float64(src)))
	}
	row("lines of tests ÷ source", "≥ 0.9 in limiter, config, lab", strings.Join(out, ", "))
}

// touched counts the source files that know one reason, one algorithm, one
// protocol by name: what a further one of them has to be written into.
func touched(all []source) {
	known := func(word *regexp.Regexp, own ...string) (files []string) {
		for _, s := range all {
			mine := strings.HasPrefix(s.path, "internal/") || slices.ContainsFunc(own, func(o string) bool { return strings.HasPrefix(s.path, o) })
			if !s.test && !mine && word.Match(code(s.text)) {
				files = append(files, s.path)
			}
		}
		return files
	}
	// PostgreSQL is a source of signals for the tuner as well, which is another matter.
	source := []string{"internal/tuner/sqlsource", "internal/config/tuner.go", "internal/config/validate_tuner.go", "internal/daemon/tunersetup/"}
	protocol := append(source, "internal/ingress/postgresgate/", "internal/config/postgres.go", "internal/daemon/protocol/postgres.go", "internal/lab/", "cmd/admitd/labcmd/")
	for _, k := range []struct {
		what, aim string
		files     []string
	}{
		{"source files that know one reason (`queue_timeout`)", "≤ 5", known(regexp.MustCompile(`\bQueueTimeout\b|"queue_timeout"`))},
		{"source files that know one algorithm (`gradient2`)", "≤ 4", known(regexp.MustCompile(`(?i)\bgradient2\b|KindGradient2\b|Gradient2Options\b`))},
		{"existing source files that know one wire protocol (`postgres`)", "≤ 5", known(regexp.MustCompile(`(?i)postgres`), protocol...)},
	} {
		row(k.what, k.aim, fmt.Sprintf("%d: %s", len(k.files), strings.Join(k.files, ", ")))
	}
}

// code is text without its comments that stand on lines of their own.
func code(text []byte) []byte {
	var out []byte
	for line := range bytes.Lines(text) {
		if !bytes.HasPrefix(bytes.TrimSpace(line), []byte("//")) {
			out = append(out, line...)
		}
	}
	return out
}

func orNone(list []string) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.Join(list, ", ")
}
