package arch_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A room that starts goroutines, locks or counts atomically is tested with the race
// detector: fleet, decide, shadow and four more were not, since nobody had added
// them to the list. Nothing on the list has gone.
func TestSharedStateIsTestedForRaces(t *testing.T) {
	rooms := raceRooms(t)
	below := func(dir string) int {
		return slices.IndexFunc(rooms, func(room string) bool { return dir == room || strings.HasPrefix(dir, room+"/") })
	}
	used := make([]bool, len(rooms))
	for _, p := range packages(t) {
		at := below(p.dir)
		if at >= 0 {
			used[at] = true
			continue
		}
		for _, f := range p.sources() {
			if why := shares(t, f); why != "" {
				t.Errorf("%s %s, and RACE_ROOMS of the Makefile has no room of it", f.path, why)
			}
		}
	}
	for i, room := range rooms {
		if !used[i] {
			t.Errorf("RACE_ROOMS names %s, which has no Go files", room)
		}
	}
}

// raceRooms reads the list from the Makefile, joined where it is continued.
func raceRooms(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(content), "\\\n", " ")
	found := regexp.MustCompile(`(?m)^RACE_ROOMS \?= (.+)$`).FindStringSubmatch(joined)
	if found == nil {
		t.Fatal("the Makefile has no RACE_ROOMS")
	}
	return strings.Fields(found[1])
}

// shares says by what a file shows that goroutines share state in it, "" when it
// does not.
func shares(t *testing.T, f file) (why string) {
	t.Helper()
	for _, imp := range []string{"sync", "sync/atomic"} {
		if slices.Contains(f.imports, imp) {
			return "imports " + imp
		}
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, f.path), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse: %v", err)
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			why = "starts a goroutine"
		}
		return why == ""
	})
	return why
}
