package strict_test

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config/strict"
)

// A size is written in any unit, and read back as the same bytes in the largest one
// that divides it.
func TestSizes(t *testing.T) {
	for text, want := range map[string]struct {
		bytes int64
		again string
	}{
		"0": {0, "0"}, "1": {1, "1"}, "512 B": {512, "512"}, " 64KiB ": {1 << 16, "64KiB"}, "1024KiB": {1 << 20, "1MiB"}, "1.5MiB": {3 << 19, "1536KiB"},
		"3GiB": {3 << 30, "3GiB"}, "1 TiB": {1 << 40, "1TiB"}, "1KB": {1000, "1000"}, "2MB": {2_000_000, "2000000"}, "1GB": {1_000_000_000, "1000000000"},
		"16TB": {16_000_000_000_000, "15625000000KiB"}, "1e3": {1000, "1000"}, "4194304TiB": {1 << 62, "4194304TiB"},
	} {
		var s strict.Size
		if err := s.UnmarshalText([]byte(text)); err != nil || int64(s) != want.bytes || s.String() != want.again {
			t.Errorf("%q is %d bytes, written %s, %v; want %d and %s", text, s, s, err, want.bytes, want.again)
		}
	}
	for text, want := range map[string]string{
		"": "is not a size", "KiB": "is not a size", "-1": "is not a size", "1kb": "is not a size", "1KiBB": "is not a size", "1 K iB": "is not a size", "NaN": "is not a size",
		"1XB": "is not a size", "4194305TiB": "is too large", "infGiB": "is too large", "1e30": "is too large", "0.3": "is not a whole number", "1.0001KiB": "is not a whole number",
	} {
		s := strict.Size(7)
		if err := s.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || s != 7 {
			t.Errorf("%q is %d bytes, %v; want %q, and the size left as it was", text, s, err, want)
		}
	}
}

// A duration has a unit, and is written without those that are zero.
func TestDurations(t *testing.T) {
	for text, want := range map[string]string{
		"0": "0s", "250ms": "250ms", "60s": "1m", "90s": "1m30s", "3600s": "1h", "24h": "24h", "1h0m1s": "1h0m1s", "1h30m": "1h30m", "100m": "1h40m", "10m": "10m", "1us": "1µs", "-2s": "-2s", "0.5s": "500ms",
	} {
		var d strict.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || d.String() != want {
			t.Errorf("%q is written %s, %v; want %s", text, d, err, want)
		}
		var again strict.Duration
		if err := again.UnmarshalText([]byte(d.String())); err != nil || again != d {
			t.Errorf("%s reads back as %v, %v", d, time.Duration(again), err)
		}
	}
	for text, want := range map[string]string{"5": "needs a unit", "1.5": "needs a unit", "soon": "is not a duration", "": "is not a duration", "1d": "is not a duration", "5 s": "is not a duration"} {
		var d strict.Duration
		if err := d.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is %v, %v; want %q", text, d, err, want)
		}
	}
}

// Words that stand for a number are read and written as words.
func TestWordsForNumbers(t *testing.T) {
	var c strict.Count
	var s strict.Status
	for text, want := range map[string]int{"auto": -1, "0": 0, "12": 12} {
		if err := c.UnmarshalText([]byte(text)); err != nil || int(c) != want {
			t.Errorf("the count %s is %d, %v; want %d", text, c, err, want)
		}
		if b, err := c.MarshalText(); err != nil || string(b) != text {
			t.Errorf("the count %d is written %s, %v; want %s", c, b, err, text)
		}
	}
	for text, want := range map[string]int{"auto": 0, "429": 429} {
		if err := s.UnmarshalText([]byte(text)); err != nil || int(s) != want {
			t.Errorf("the status %s is %d, %v; want %d", text, s, err, want)
		}
		if b, err := s.MarshalText(); err != nil || string(b) != text {
			t.Errorf("the status %d is written %s, %v; want %s", s, b, err, text)
		}
	}
	for _, text := range []string{"", "many", "1.5", "Auto"} {
		if c.UnmarshalText([]byte(text)) == nil || s.UnmarshalText([]byte(text)) == nil {
			t.Errorf("%q is taken for a count or a status", text)
		}
	}
}

// A secret is shown by nothing that shows values, and revealed by one call.
func TestSecrets(t *testing.T) {
	var s strict.Secret
	if err := s.UnmarshalText([]byte("hush")); err != nil || s.Reveal() != "hush" {
		t.Fatalf("the secret is %s, %v", s.Reveal(), err)
	}
	b, err := json.Marshal(map[string]strict.Secret{"a": s})
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{s.String(), fmt.Sprint(s), fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s), fmt.Sprintf("%+v", struct{ S strict.Secret }{s}), string(b)} {
		if strings.Contains(shown, "hush") || !strings.Contains(shown, "REDACTED") {
			t.Errorf("a secret is shown as %s", shown)
		}
	}
}

// What a report knows of a key is where it was written: in the file at a line, or in a
// variable, which comes first; what has its default was written nowhere.
func TestWhereKeysAreWritten(t *testing.T) {
	r := strict.NewReport("f.yaml", strict.Options{})
	text := "name: x\ntill:\n  kind: card\nshelves:\n  - name: a\n  - { name: b, slots: 2 }\n"
	if _, err := r.Layers(reflect.TypeFor[shop](), []byte(text), []string{"ADMITD_SHELVES__1__SLOTS=9", "ADMITD_TILL__FEE=2"}); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"name": "f.yaml:1", "till": "f.yaml:2", "till.kind": "f.yaml:3", "shelves[0].name": "f.yaml:5", "shelves[1].name": "f.yaml:6",
		"shelves[1].slots": "$ADMITD_SHELVES__1__SLOTS", "till.fee": "$ADMITD_TILL__FEE", "port": "", "shelves[0].slots": "",
	} {
		if got := r.Source(path); got != want {
			t.Errorf("%s was written at %q; want %q", path, got, want)
		}
	}
	for path, want := range map[string]bool{"name": true, "shelves[0].name": true, "till.fee": false, "port": false} {
		if got := r.IsWritten(path); got != want {
			t.Errorf("%s stands in the text: %v; want %v", path, got, want)
		}
	}
	for path, want := range map[string]string{"till.kind.x": "f.yaml:3", "till.nothing": "f.yaml:2", "shelves[0].slots": "f.yaml:5", "nowhere.at.all": "f.yaml:1", "till.fee.x": "$ADMITD_TILL__FEE:0"} {
		file, line := r.Origin(path)
		if got := fmt.Sprintf("%s:%d", file, line); got != want {
			t.Errorf("%s, or the nearest above it, was written at %s; want %s", path, got, want)
		}
	}
}

// Keys that could be mistaken for steps of a path are quoted in it.
func TestPaths(t *testing.T) {
	for want, got := range map[string]string{
		"a":           strict.Join("", "a"),
		"a.b":         strict.Join("a", "b"),
		`a["b.c"]`:    strict.Join("a", "b.c"),
		`["b c"]`:     strict.Join("", "b c"),
		`a["/x"]`:     strict.Join("a", "/x"),
		`a["h:1"]`:    strict.Join("a", "h:1"),
		`a[""]`:       strict.Join("a", ""),
		`a["x\n"]`:    strict.Join("a", "x\n"),
		`a["b[0]"]`:   strict.Join("a", "b[0]"),
		"a[0]":        strict.Element("a", 0),
		"a.b[12]":     strict.Element("a.b", 12),
		`a["x\"y"]`:   strict.Join("a", `x"y`),
		"a.größe":     strict.Join("a", "größe"),
		`a["\u200b"]`: strict.Join("a", "\u200b"), // what cannot be seen
		"a.b-c_d.e1":  strict.Join(strict.Join("a", "b-c_d"), "e1"),
	} {
		if got != want {
			t.Errorf("the path is %s; want %s", got, want)
		}
	}
	long := strings.Repeat("ä", 300)
	r := strict.NewReport("f", strict.Options{})
	r.Add(long, "is wrong", nil)
	if got := r.Err().(strict.Problems)[0].Path; len(got) > 310 || !strings.HasSuffix(got, "ä…") { //nolint:errorlint,forcetypeassert // it is nothing else
		t.Errorf("a path of %d bytes is shown in %d: %.20s", len(long), len(got), got)
	}
}

// Numbers are written in many ways, and mean one thing.
func TestNumbers(t *testing.T) {
	for text, want := range map[string]float64{"0.25": 0.25, "2.5e-1": 0.25, "25e-2": 0.25, ".25": 0.25, "0": 0, "0.0": 0, "-0": 0} {
		if got := mustRead(t, "name: x\nshare: "+text+"\n").Share; math.Abs(got-want) > 1e-12 {
			t.Errorf("share: %s is %v; want %v", text, got, want)
		}
	}
	for text, want := range map[string]int{"81": 81, "8.1e1": 81, "81.0": 81, "0x51": 81, "0o121": 81, "+81": 81} {
		if got := mustRead(t, "name: x\nport: "+text+"\n").Port; got != want {
			t.Errorf("port: %s is %d; want %d", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"1e400": "2: port: must be a whole number", "9007199254740993.0": "2: port: must be", "1e16": "2: port: must be", "017": "begins with a zero", "١": "2: port: must be a whole number",
	} {
		if got := strings.Join(said(t, "name: x\nport: "+text+"\n"), "\n"); !strings.Contains(got, want) {
			t.Errorf("port: %s: %q; want %q", text, got, want)
		}
	}
}

// What keeps a text from being YAML most often is told with what to do about it.
func TestCures(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"a tab below":           {"till:\n  kind: card\n\tfee: 2\n", "line 3 is indented with a tab; use spaces"},
		"between two":           {"till:\n    kind: card\n  fee: 2\n", "it is indented by 2 spaces and lines up with nothing above it"},
		"between, in a list":    {"shelves:\n    - name: a\n   slots: 2\n", "lines up with nothing above it"},
		"after comments":        {"till:\n    kind: card\n# all of it\n\n  fee: 2\n", "it is indented by 2 spaces"},
		"a bracket":             {"words: [a, b\nname: x\n", "is not valid YAML: "},
		"a quote":               {"name: \"x\nport: 1\n", "is not valid YAML: "},
		"a key without a colon": {"name: x\nport\n", "is not valid YAML: "},
	} {
		got := said(t, tc.text)
		if len(got) != 1 || !strings.Contains(got[0], tc.want) {
			t.Errorf("%s: %q; want one problem with %q", name, got, tc.want)
		}
	}
	if got := said(t, "name: x\ntill:\n  kind: card\n  coins: 1\n"); len(got) != 1 || strings.Contains(got[0], "lines up") {
		t.Errorf("a fault that is none of the text's: %q", got)
	}
}
