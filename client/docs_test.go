package client_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/client"
)

// retryHalf returns what docs/client.md says about this package.
func retryHalf(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../docs/client.md")
	if err != nil {
		t.Fatal(err)
	}
	half, _, found := strings.Cut(string(b), "\n## Server selection")
	if !found {
		t.Fatal("docs/client.md has no chapter on server selection")
	}
	return half
}

// The document points to tests that exist, and to every test that is named
// after a rule.
func TestDocumentationPointsToRealTests(t *testing.T) {
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	gates, err := filepath.Glob("../limiter/*_test.go") // where hints are computed
	if err != nil {
		t.Fatal(err)
	}
	exist, known := map[string]bool{}, map[string]bool{} // exist: to be named; known: may be
	for _, file := range append(files, gates...) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(b, -1) {
			exist[string(m[1])] = !strings.HasPrefix(file, "..")
			known[string(m[1])] = true
		}
	}
	named := map[string]bool{}
	for _, name := range regexp.MustCompile(`Test\w+`).FindAllString(retryHalf(t), -1) {
		if named[name] = true; !known[name] {
			t.Errorf("docs/client.md names %s, which does not exist", name)
		}
	}
	rule := regexp.MustCompile(`^Test(\w*Rule\d|SlowDown|Property|Interaction)`)
	for name := range exist {
		if exist[name] && rule.MatchString(name) && !named[name] {
			t.Errorf("docs/client.md does not name %s", name)
		}
	}
}

// Documentation rule 1: it is documented that all commands support retries.
func TestDocumentationRule1AllCommandsSupportRetries(t *testing.T) {
	for name, text := range map[string]string{"docs/client.md": retryHalf(t), "doc.go": packageComment(t)} {
		if !regexp.MustCompile(`(?i)every operation, read, write or generic command, may be retried`).MatchString(text) {
			t.Errorf("%s does not say that every operation may be retried", name)
		}
	}
}

// Documentation rule 2: it is documented how custom retry loops must change.
func TestDocumentationRule2CustomRetryLoops(t *testing.T) {
	_, text, found := strings.Cut(retryHalf(t), "\n## Migrating custom retry loops")
	if !found || len(text) < 500 {
		t.Error("docs/client.md does not say how to migrate custom retry loops")
	}
}

// The bounds in the table of profiles are those of the profiles.
func TestDocumentationStatesMaxSleep(t *testing.T) {
	want := "| longest total wait (`MaxSleep`) |"
	for _, p := range []client.Policy{client.Seed(), client.Driver(), client.SlowDown(client.SlowDownOptions{})} {
		want += " " + strings.Replace(p.MaxSleep().Round(100*time.Millisecond).String(), "s", " s", 1) + " |"
	}
	if !strings.Contains(retryHalf(t), want) {
		t.Errorf("docs/client.md does not say %q", want)
	}
}

func packageComment(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(strings.ReplaceAll(string(b), "\n// ", " "), "  ", " ")
}
