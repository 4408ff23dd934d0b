package config_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// block is a piece of YAML in a document.
type block struct{ at, text string }

// blocks returns the YAML of the documents that users copy from, less the lab's,
// which are scenarios.
func blocks(t *testing.T) (list []block) {
	t.Helper()
	fence := regexp.MustCompile("(?ms)^```ya?ml\n(.*?)^```")
	files := []string{"../../README.md"}
	err := filepath.WalkDir("../../docs", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && d.Name() == "lab" {
			return filepath.SkipDir
		}
		if strings.HasSuffix(p, ".md") {
			files = append(files, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range fence.FindAllSubmatchIndex(b, -1) {
			line := 2 + strings.Count(string(b[:at[0]]), "\n")
			list = append(list, block{fmt.Sprintf("%s:%d", filepath.ToSlash(file), line), string(b[at[2]:at[3]])})
		}
	}
	if len(list) < 15 {
		t.Fatalf("%d blocks of YAML were found", len(list))
	}
	return list
}

// indented returns text with its first line, and all others as far, indented by n.
func indented(text string, n int) string {
	first := len(text) - len(strings.TrimLeft(text, " "))
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(strings.Repeat(" ", n) + line[min(first, len(line)-len(strings.TrimLeft(line, " "))):])
	}
	return out.String()
}

// places returns the files in which a block may be meant to stand: by itself, beside
// the ingresses that documents name, among them, in one of them, or in the tuner.
func places(text string) map[string]string {
	const around = "fleet: { redis: { addresses: ['127.0.0.1:6379'] } }\n"
	const others = around + "ingresses:\n" +
		"  - { name: orders, protocol: http, listen: '127.0.0.1:8462', backend: 'http://127.0.0.1:9000' }\n" +
		"  - { name: queue, protocol: pulsar, listen: '127.0.0.1:6660', backend: '127.0.0.1:6650' }\n"
	out := map[string]string{
		"a file":         indented(text, 0),
		"ingresses":      "ingresses:\n" + indented(text, 2),
		"the top level":  others + indented(text, 0),
		"tuner":          others + "tuner:\n" + indented(text, 2),
		"an ingress":     around + "ingresses:\n  - name: orders\n    protocol: http\n    listen: 127.0.0.1:1\n    backend: http://127.0.0.1:2\n" + indented(text, 4),
		"its partitions": around + "ingresses:\n  - name: orders\n    protocol: http\n    listen: 127.0.0.1:1\n    backend: http://127.0.0.1:2\n    partitions:\n" + indented(text, 6),
	}
	for _, protocol := range []string{"mongodb", "postgres", "pulsar"} {
		out["an ingress of "+protocol] = around + "ingresses:\n  - name: orders\n    protocol: " + protocol + "\n    listen: 127.0.0.1:1\n    backend: 127.0.0.1:2\n" + indented(text, 4)
	}
	return out
}

// Whatever YAML stands in a document can be copied from it: it is a file that loads,
// or a part of one. A key that is renamed or bounded takes its documents along.
func TestDocumentsLoad(t *testing.T) {
	for _, b := range blocks(t) {
		least := config.Problems(make([]config.Problem, 1000))
		for place, text := range places(b.text) {
			_, err := config.Parse(place, []byte(text), nil)
			var problems config.Problems
			if err == nil || errors.As(err, &problems) && len(problems) < len(least) {
				least = problems
			}
		}
		if len(least) > 0 {
			t.Errorf("%s stands nowhere in a file; nearest comes\n%v", b.at, least)
		}
	}
}

// The test above would notice: a block with a key that does not exist, or a value that
// is too large, stands nowhere.
func TestDocumentsAreRead(t *testing.T) {
	for _, text := range []string{"partitions: { by: client, defalt: {} }\n", "requests: { rate: -1 }\n", "- { name: db, protocol: mongodb }\n  x\n"} {
		for place, whole := range places(text) {
			if _, err := config.Parse(place, []byte(whole), nil); err == nil {
				t.Errorf("%q was taken in %s", text, place)
			}
		}
	}
}
