package strict_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config/strict"
)

// Each fault is told with its line, its path, what is wrong and what stands there,
// and nothing besides.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"missing":               {"port: 1", []string{"1: name: is required"}},
		"missing in an element": {"name: x\nshelves:\n  - { slots: 1 }", []string{"3: shelves[0].name: is required"}},
		"unknown key":           {"name: x\nprot: 1", []string{`2: prot: unknown key, did you mean "port"?`}},
		"unknown, like none":    {"name: x\nelephant: 1", []string{"2: elephant: unknown key"}},
		"unknown below":         {"name: x\ntill: { cons: 1 }", []string{`2: till.cons: unknown key, did you mean "coins"?`}},
		"odd key":               {"name: x\n\"a b\": 1", []string{`2: ["a b"]: unknown key`}},
		"not whole":             {"name: x\nport: 1.5", []string{"2: port: must be a whole number (1.5)"}},
		"too large for any":     {"name: x\nport: 18446744073709551615", []string{"2: port: is too large (18446744073709551615)"}},
		"below":                 {"name: x\nport: 0", []string{"2: port: must be at least 1 (0)"}},
		"above":                 {"name: x\nport: 65536", []string{"2: port: must be at most 65535 (65536)"}},
		"not below":             {"name: x\nshare: 1", []string{"2: share: must be below 1 (1)"}},
		"not a number":          {"name: x\nshare: much", []string{"2: share: must be a number (much)"}},
		"not the word for 0":    {"name: x\npace: unlimitd", []string{"2: pace: must be a number or unlimited (unlimitd)"}},
		"no finite number":      {"name: x\nshare: .inf", []string{"2: share: must be a finite number (+Inf)"}},
		"NaN":                   {"name: x\nshare: .nan", []string{"2: share: must be a finite number (NaN)"}},
		"octal to some":         {"name: x\nport: 0100", []string{"2: port: begins with a zero, which YAML reads as octal in one version and as decimal in another; leave it out (0100)"}},
		"not yes or no":         {"name: x\nopen: yes", []string{"2: open: must be true or false (yes)"}},
		"number for text":       {"name: 7", []string{"1: name: must be text; put it in quotes (7)"}},
		"list for text":         {"name: [x]", []string{"1: name: must be one value, not a list (a list of 1)"}},
		"mapping for text":      {"name: { x: 1 }", []string{"1: name: must be one value, not a mapping (a mapping)"}},
		"no unit":               {"name: x\nwait: 10", []string{"2: wait: needs a unit, such as 250ms or 10s (10)"}},
		"no duration":           {"name: x\nwait: soon", []string{"2: wait: is not a duration, such as 250ms or 10s (soon)"}},
		"too short":             {"name: x\nwait: 1us", []string{"2: wait: must be at least 1ms (1us)"}},
		"too much room":         {"name: x\nroom: 2MiB", []string{"2: room: must be at most 1MiB (2MiB)"}},
		"no size":               {"name: x\nroom: 1kb", []string{"2: room: is not a size, such as 64KiB or 16MiB (1kb)"}},
		"no status":             {"name: x\nstatus: 500", []string{"2: status: must be auto, 429 or 503 (500)"}},
		"nearly a word":         {"name: x\ntill: { kind: crad }", []string{`2: till.kind: must be cash or card, did you mean "card"? (crad)`}},
		"of another kind":       {"name: x\ntill: { kind: card, coins: 1 }", []string{"2: till.coins: does not belong to kind card, only to cash"}},
		"wrong word":            {"name: x\nline: manual", []string{"2: line: must be auto or a mapping (manual)"}},
		"no mapping":            {"name: x\ntill: cash", []string{"2: till: must be a mapping (cash)"}},
		"no list":               {"name: x\nwords: a", []string{"2: words: must be a list (a)"}},
		"hole in a list":        {"name: x\nwords:\n  - a\n  -\n  - b", []string{"4: words[1]: is an empty element"}},
		"no map":                {"name: x\nprices: [1]", []string{"2: prices: must be a mapping (a list of 1)"}},
		"nothing in a map":      {"name: x\nprices: { tea: }", []string{"2: prices.tea: has no value"}},
		"below in a map":        {"name: x\nprices: { tea: -1 }", []string{"2: prices.tea: must be at least 0 (-1)"}},
		"no overlay":            {"name: x\nchange: 7", []string{"2: change: must be a mapping (7)"}},
		"no range":              {"name: x\nnets: [10.0.0.1/8]", []string{"2: nets[0]: has bits beyond its mask; 10.0.0.0/8 is meant? (10.0.0.1/8)"}},
		"no address":            {"name: x\nnets: home", []string{"2: nets: is not a CIDR or an address, such as 10.0.0.0/8 (home)"}},
		"a zone":                {"name: x\nnets: fe80::1%eth0", []string{"2: nets: has a zone, which a range cannot have (fe80::1%eth0)"}},
		"secret of no kind":     {"name: x\nkey: { a: 1 }", []string{"2: key: must be one value, not a mapping (REDACTED)"}},
		"below a secret":        {"name: x\nsecrets: { A: [hush] }", []string{"2: secrets.A: must be one value, not a list (REDACTED)"}},
		"all at once": {"port: 0\nshare: 2\ntill: { kind: card, coins: 1, x: 1 }", []string{
			"1: name: is required", "1: port: must be at least 1 (0)", "2: share: must be below 1 (2)",
			"3: till.coins: does not belong to kind card, only to cash", "3: till.x: unknown key",
		}},
	} {
		if diff := cmp.Diff(tc.want, said(t, tc.text+"\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A text that is no document is refused as a whole, with the line.
func TestDocuments(t *testing.T) {
	deep := strings.Repeat("[", 40) + strings.Repeat("]", 40)
	var keys strings.Builder
	for i := range 2100 {
		fmt.Fprintf(&keys, "k%d: 1\n", i)
	}
	bomb := "a0: &a0 x\n"
	for i := range 6 { // half a million values in six lines
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i+1, i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), ", "))
	}
	for name, tc := range map[string]struct{ text, want string }{
		"a bomb":            {bomb, "aliases expand to more than 100000 values"},
		"empty":             {"", "1: is empty"},
		"only a comment":    {"# nothing\n", "1: is empty"},
		"null":              {"~\n", "1: is empty"},
		"a list":            {"- a\n", "1: must be a mapping of keys"},
		"a word":            {"hello\n", "1: must be a mapping of keys"},
		"two documents":     {"name: x\n---\nname: y\n", "3: begins a second document; only one is read"},
		"not UTF-8":         {"name: x\nport: \xff\n", "2: is not valid UTF-8"},
		"a NUL":             {"name: x\nport: \x00\n", "2: holds a NUL byte"},
		"a tab":             {"till:\n\tkind: card\n", "2: is not valid YAML: found character ' ' that cannot start any token: line 2 is indented with a tab; use spaces"},
		"out of line":       {"till:\n    kind: card\n  coins: 1\n", "it is indented by 2 spaces and lines up with nothing above it"},
		"too large":         {"name: " + strings.Repeat("x", 1<<20), "is larger than 1MiB"},
		"too deep":          {"name: x\nwords: " + deep + "\n", "2: is nested deeper than 32 levels"},
		"too many keys":     {keys.String(), "has more than 2000 keys in one mapping"},
		"unknown anchor":    {"name: *nowhere\n", "1: name: refers to an anchor that is not defined before it: *nowhere"},
		"anchor of no name": {"*|\n", `1: refers to an anchor that is not defined before it: *"|\n"`},
		"long anchor":       {"name: *" + strings.Repeat("x", 200) + "\n", "defined before it: *" + strings.Repeat("x", 80) + "…"},
		"written twice":     {"name: x\nname: y\n", "2: name: is written twice, first in line 1"},
		"key that is a map": {"? { a: 1 }\n: x\n", "found an invalid key for this map"},
		"a tag":             {"name: !!binary aGk=\n", "1: name: has a YAML tag, which this configuration does not use"},
		"merge of a word":   {"till: { <<: cash }\nname: x\n", "1: till: merges something that is not a mapping with <<"},
	} {
		got := said(t, tc.text)
		if len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), tc.want) {
			t.Errorf("%s: said %q; want %q", name, got, tc.want)
		}
	}
}

// Two hundred problems are enough: what is beyond them is counted.
func TestProblemsAreBounded(t *testing.T) {
	var text strings.Builder
	text.WriteString("name: x\nprices:\n")
	for i := range 250 {
		fmt.Fprintf(&text, "  p%d: -1\n", i)
	}
	got := said(t, text.String())
	if len(got) != 201 {
		t.Fatalf("%d problems are told; want 200 and one that counts the rest", len(got))
	}
	if last := got[len(got)-1]; last != " and 50 more problems" {
		t.Errorf("the last one says %q", last)
	}
}

// A value is shown short, on one line, and without the password of a URL.
func TestValuesAreShownShort(t *testing.T) {
	r := strict.NewReport("f", strict.Options{})
	for i, tc := range []struct {
		value any
		want  string
	}{
		{strings.Repeat("x", 200), strings.Repeat("x", 80) + "…"},
		{strings.Repeat("x", 79) + "äöü", strings.Repeat("x", 79) + "…"},
		{"two\nlines", `"two\nlines"`},
		{"", `""`},
		{"http://u:secret@h", "http://u:REDACTED@h"},
		{"http://h?key=secret", "http://h?key=REDACTED"},
		{"u:sec:r@et@h:1", "u:REDACTED@h:1"},
		{"u@h:1", "u@h:1"},
		{"h:1", "h:1"},
		{map[string]any{}, "a mapping"},
		{[]any{1, 2}, "a list of 2"},
		{true, "true"},
	} {
		r.Add(fmt.Sprintf("k%02d", i), "is wrong", tc.value)
		if got := r.Err().(strict.Problems)[i].Value; got != tc.want { //nolint:errorlint,forcetypeassert // it is nothing else
			t.Errorf("%v is shown as %q; want %q", tc.value, got, tc.want)
		}
	}
}

// A relation is told once, and not at all where one of its keys is known to be bad:
// it would be about the default that stands in for what was written.
func TestRelate(t *testing.T) {
	r := strict.NewReport("f", strict.Options{})
	if !r.IsEmpty() || r.Err() != nil {
		t.Errorf("a new report has problems: %v", r.Err())
	}
	r.Relate("must be less than b", 7, "a", "b")
	r.Relate("must be less than b", 7, "a", "b")
	r.Add("c", "is wrong", 1)
	r.Relate("must be less than c", 7, "a", "c")
	if got, want := r.Err().Error(), "f:1: a: must be less than b (7)\nf:1: c: is wrong (1)"; got != want {
		t.Errorf("problems\n%s\nwant\n%s", got, want)
	}
	if r.IsBad("a") || !r.IsBad("c") {
		t.Error("a key of a relation is not bad by itself; one whose value was replaced is")
	}
}

func TestWordsOfMessages(t *testing.T) {
	for want, words := range map[string][]string{"": nil, "a": {"a"}, "a or b": {"a", "b"}, "a, b or c": {"a", "b", "c"}} {
		if got := strict.OneOf(words); got != want {
			t.Errorf("OneOf(%q) = %q; want %q", words, got, want)
		}
	}
	keys := []string{"listen", "backend", "limit", "limits"}
	for word, want := range map[string]string{
		"lisetn": "listen", "Backend": "backend", "bakcend": "backend", "limti": "limit", "x": "", "whatever": "", "123": "", "lim": "limit",
	} {
		if got := strict.Nearest(word, keys); got != want {
			t.Errorf("Nearest(%q) = %q; want %q", word, got, want)
		}
	}
	for want, got := range map[string]string{
		"a.b": strict.Join("a", "b"), "b": strict.Join("", "b"), `a["b.c"]`: strict.Join("a", "b.c"), `a[""]`: strict.Join("a", ""),
		`a["ü\n"]`: strict.Join("a", "ü\n"), "a[3]": strict.Element("a", 3),
	} {
		if got != want {
			t.Errorf("path %q; want %q", got, want)
		}
	}
}
