package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// pkg is one directory of Go files in the main module.
type pkg struct {
	dir   string // relative to the root, with slashes; "." is the root
	files []file
}

// file is one parsed Go file, read down to its imports.
type file struct {
	path    string
	name    string // of the package
	test    bool
	doc     string // package comment
	imports []string
}

// sources returns the files that are not tests.
func (p pkg) sources() []file {
	return slices.DeleteFunc(slices.Clone(p.files), func(f file) bool { return f.test })
}

// packages parses every Go file of the main module. It reads the files itself:
// a test that asked `go list` would be answered from the test cache after an
// edit elsewhere, and stay green on a forbidden import.
func packages(t *testing.T) []pkg {
	t.Helper()
	byDir := map[string]*pkg{}
	walk(t, func(path string) {
		if !strings.HasSuffix(path, ".go") || slices.Contains(strings.Split(path, "/"), "testdata") {
			return
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if byDir[dir] == nil {
			byDir[dir] = &pkg{dir: dir}
		}
		byDir[dir].files = append(byDir[dir].files, parse(t, path))
	}, skipNestedModules)
	if len(byDir) < 3 {
		t.Fatalf("found only %d packages below %s", len(byDir), root)
	}
	all := make([]pkg, 0, len(byDir))
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		all = append(all, *byDir[dir])
	}
	return all
}

func parse(t *testing.T, path string) file {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	f := file{path: path, name: parsed.Name.Name, test: strings.HasSuffix(path, "_test.go"), doc: docText(parsed)}
	for _, spec := range parsed.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatalf("%s: import %s: %v", path, spec.Path.Value, err)
		}
		f.imports = append(f.imports, imp)
	}
	return f
}

func docText(f *ast.File) string {
	if f.Doc == nil {
		return ""
	}
	return f.Doc.Text()
}

// skipNestedModules leaves out directories that have a go.mod of their own.
func skipNestedModules(path string) bool {
	if path == "." {
		return false
	}
	_, err := os.Stat(filepath.Join(root, path, "go.mod"))
	return err == nil
}

// walk calls visit for every file of the tree that belongs to the project, with
// its path relative to the root.
func walk(t *testing.T, visit func(path string), skipDir func(path string) bool) {
	t.Helper()
	err := filepath.WalkDir(root, func(full string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, full)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && d.Name() != ".ci" && rel != "."
			if hidden || rel == "bin" || d.Name() == "node_modules" || skipDir(rel) {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() && d.Name() != ".git" { // a file in a linked work tree
			visit(rel)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("walk: %v", err)
	}
}
