package config_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
)

// Whatever the bytes and the variables, Parse returns, and either with a
// configuration that survives being rendered or with a bounded list of
// problems, each on one line.
func FuzzParse(f *testing.F) {
	files, err := os.ReadDir("testdata")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range files {
		if e.IsDir() {
			continue
		}
		b, err := os.ReadFile("testdata/" + e.Name())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, "ADMITD_INGRESSES__0__LISTEN", "127.0.0.1:1")
	}
	f.Add([]byte(minimal), "ADMITD_INGRESSES__0__PARTITIONS__NAMED__1__NAME", "b")
	f.Fuzz(func(t *testing.T, content []byte, name, value string) {
		if len(content) > 64<<10 {
			return
		}
		c, err := config.Parse("fuzz.yaml", content, []string{name + "=" + value})
		if err == nil {
			survives(t, c)
			return
		}
		var problems config.Problems
		if !errors.As(err, &problems) || len(problems) == 0 || len(problems) > 201 {
			t.Fatalf("Parse = %d problems, %v", len(problems), err)
		}
		for _, p := range problems {
			if p.Message == "" || len(p.Value) > 400 || strings.ContainsAny(p.Message+p.Value, "\n\r") {
				t.Errorf("problem %#v", p)
			}
		}
	})
}

func survives(t *testing.T, c *config.Config) {
	t.Helper()
	b, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := config.Parse("effective", b, nil); err != nil {
		t.Fatalf("the effective configuration does not parse:\n%v\n%s", err, b)
	}
}

// Files made to hurt cost a few seconds at most, and no stack.
func TestHostileFiles(t *testing.T) {
	var keys, few, flow, named strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&keys, "a%d: 1\n", i)
		fmt.Fprintf(&flow, "a%d: 1,", i%30_000)
		if i < 2000 {
			fmt.Fprintf(&few, "a%d: 1\n", i)
		}
	}
	named.WriteString(minimal[:strings.Index(minimal, "    partitions")] + "    partitions:\n      by: client\n      named:\n")
	for i := range 5000 {
		fmt.Fprintf(&named, "      - { name: n%d }\n", i)
	}
	for name, content := range map[string]string{
		"open brackets":   strings.Repeat("[", 1<<20),
		"open braces":     strings.Repeat("{a: ", 1<<18),
		"dashes":          strings.Repeat("- ", 1<<19),
		"questions":       strings.Repeat("? ", 1<<19),
		"stairs":          stairs(),
		"many keys":       keys.String(),
		"most keys":       few.String(),
		"many flow keys":  "{" + flow.String()[:150_000] + "z: 1}",
		"many anchors":    "a: " + strings.Repeat("&a ", 1<<18),
		"many tags":       "a: " + strings.Repeat("!!a ", 1<<18),
		"many documents":  strings.Repeat("---\n", 1<<18),
		"many partitions": named.String(),
		"long word":       "a: " + strings.Repeat("x", 1<<20-8),
		"long list":       "a: [" + strings.Repeat("1,", 1<<19-8) + "1]",
		"quotes":          strings.Repeat(`"`, 1<<20),
		"pipes":           "a: |\n" + strings.Repeat(" x\n", 300_000),
		"colons":          strings.Repeat(":", 1<<20),
		"colon pairs":     strings.Repeat("a: ", 1<<18),
		"stars":           "a: [" + strings.Repeat("*a,", 1<<18) + "]",
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			_, err := config.Parse(name, []byte(content), nil)
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %v", took)
			} else {
				t.Logf("took %v", took)
			}
			if err == nil && name != "many partitions" {
				t.Error("accepted")
			}
			var problems config.Problems
			if errors.As(err, &problems) && len(problems) > 201 {
				t.Errorf("%d problems", len(problems))
			}
		})
	}
}

// stairs nests by indentation, as deep as a MiB allows.
func stairs() string {
	var b strings.Builder
	for i := 0; b.Len() < 1<<20-2000; i++ {
		b.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	return b.String()
}
