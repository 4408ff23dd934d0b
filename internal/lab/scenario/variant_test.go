package scenario_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// A few lines of axes ask for more variants than memory holds: each axis multiplies
// them.
func TestSweepIsBounded(t *testing.T) {
	axis := func(axis, n int) string {
		entries := make([]string, n)
		for i := range entries {
			entries[i] = fmt.Sprintf("{ name: v%d-%d }", axis, i)
		}
		return "  - [" + strings.Join(entries, ", ") + "]\n"
	}
	sweep := "sweep:\n" + axis(0, 10) + axis(1, 10)
	s, err := scenario.Parse([]byte(smallest + sweep))
	if err != nil || len(s.Variants) != 100 {
		t.Fatalf("two axes of ten: %v, and %d variants; want 100", err, len(s.Variants))
	}
	if _, err := scenario.Parse([]byte(smallest + "sweep:\n" + axis(0, 100) + axis(1, 101))); err == nil {
		t.Error("10100 variants were taken")
	}
	for i := range 10 {
		sweep += axis(2+i, 60)
	}
	if _, err := scenario.Parse([]byte(smallest + sweep)); err == nil || !strings.Contains(err.Error(), "more than 10000 variants") {
		t.Errorf("twelve axes: %v; want the bound on variants", err)
	}
}

// Text that is made to hurt is refused: what is nested for its whole length, and
// anchors that name one another, which once kept the reader busy for hours.
func TestHostileText(t *testing.T) {
	bomb := "about: &a0 lol\n"
	for i := range 9 {
		bomb += fmt.Sprintf("x%d: &a%d [%s]\n", i, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	const most = 20_000
	for name, text := range map[string]string{
		"bomb in a list of variants": bomb + "variants: *a9\n",
		"bomb in a sweep":            bomb + "sweep: *a9\n",
		"bomb in a variant":          bomb + "variants: [{ name: a, x: *a9 }]\n",
		"bomb for a text":            bomb + "name: *a9\n",
		"brackets":                   "variants: " + strings.Repeat("[", most),
		"braces":                     "variants: " + strings.Repeat("{a: ", most/4),
		"dashes":                     strings.Repeat("- ", most/2),
		"anchors":                    "name: " + strings.Repeat("&a ", most/3),
		"colons":                     strings.Repeat("a: ", most/3),
		"half a list":                smallest[:len(smallest)-4],
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := scenario.Parse([]byte(text)); err == nil {
				t.Error("it was taken")
			}
		})
	}
	if s := parsed(t, "variants: [{ name: a, backend: &b { workers: 3 } }, { name: b, backend: *b }]\n"); s.Apply(&s.Variants[0]).Backend.Workers != 3 {
		t.Error("an anchor changed what it marks")
	}
}
