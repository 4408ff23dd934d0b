package arch_test

import (
	"errors"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"go/types"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is built for other systems stays buildable: top drew itself anew at a
// signal that Windows does not have, and nobody on Linux saw it. Names that a
// package or the package syscall has on some systems only are looked for; `make
// vet` builds everything.
func TestOtherSystemsHaveEveryName(t *testing.T) {
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output() // with -trimpath a test does not know
	if err != nil {
		t.Fatal(err)
	}
	lacks := map[string]map[string]bool{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		ctx := build.Default
		ctx.GOOS, ctx.GOARCH, ctx.CgoEnabled = system, "amd64", false
		offers := offered(t, &ctx, filepath.Join(strings.TrimSpace(string(goroot)), "src", "syscall"))
		lacks[system] = map[string]bool{}
		for _, p := range packages(t) {
			undefined(t, &ctx, p, offers, lacks[system])
		}
		for missing := range lacks[system] {
			if !lacks["linux"][missing] { // there the compiler has the last word: an import may have a name that its path does not tell
				t.Errorf("GOOS=%s: %s", system, missing)
			}
		}
	}
}

// offered returns the names that a directory declares on a system.
func offered(t *testing.T, ctx *build.Context, dir string) map[string]bool {
	t.Helper()
	found, err := ctx.ImportDir(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, name := range found.GoFiles {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for name := range parsed.Scope.Objects {
			names[name] = true
		}
	}
	return names
}

// undefined adds to missing what a package names on a system and does not find
// there, in itself or among what syscall offers. Of other packages nothing is known.
func undefined(t *testing.T, ctx *build.Context, p pkg, offers, missing map[string]bool) {
	t.Helper()
	fset, parsed := token.NewFileSet(), []*ast.File(nil)
	for _, f := range p.sources() {
		dir, name := filepath.Split(filepath.Join(root, f.path))
		if ok, err := ctx.MatchFile(dir, name); err != nil || !ok {
			continue
		}
		file, err := parser.ParseFile(fset, filepath.Join(dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("parse: %v", err)
		}
		parsed = append(parsed, file)
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if x, ok := s.X.(*ast.Ident); ok && x.Name == "syscall" && !offers[s.Sel.Name] {
					missing[fset.Position(s.Pos()).String()+": undefined: syscall."+s.Sel.Name] = true
				}
			}
			return true
		})
	}
	check := types.Config{Importer: nowhere{}, Error: func(err error) {
		if e, ok := errors.AsType[types.Error](err); ok && strings.HasPrefix(e.Msg, "undefined: ") {
			missing[e.Error()] = true
		}
	}}
	_, _ = check.Check(p.dir, fset, parsed, nil) // its errors were looked at
}

// nowhere is where no package can be imported from.
type nowhere struct{}

// Import implements [types.Importer].
func (nowhere) Import(string) (*types.Package, error) { return nil, errors.New("not asked for") }
