package strict_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config/strict"
)

func samePrefix(a, b strict.Prefix) bool { return a == b }

// What is not written has its default, of every type; a selecting key picks the
// defaults, and the keys, of its value.
func TestDefaults(t *testing.T) {
	got := mustRead(t, "name: corner\n")
	want := &shop{
		Name: "corner", Port: 80, Share: 0.5, Pace: 3, Bytes: 1024, Open: true, Wait: strict.Duration(10 * time.Second), Room: 1024,
		Tills: 1, Till: till{Kind: "cash", Coins: 10}, Line: line{Auto: true, Depth: 4},
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	if got := mustRead(t, "name: x\ntill: { kind: card }\n").Till; got != (till{Kind: "card", Fee: 3}) {
		t.Errorf("till of kind card = %+v; want its own defaults and zero for what is not its own", got)
	}
}

// Whatever is written comes out, in every spelling that means it.
func TestValues(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		got  func(s *shop) any
		want any
	}{
		"text":                    {"name: corner", func(s *shop) any { return s.Name }, "corner"},
		"quoted number is text":   {`name: "7"`, func(s *shop) any { return s.Name }, "7"},
		"block of text":           {"name: |\n  two\n  lines", func(s *shop) any { return s.Name }, "two\nlines\n"},
		"whole number":            {"port: 8080", func(s *shop) any { return s.Port }, 8080},
		"whole float":             {"port: 1e3", func(s *shop) any { return s.Port }, 1000},
		"number with sign":        {"port: +81", func(s *shop) any { return s.Port }, 81},
		"integer for a float":     {"share: 0", func(s *shop) any { return s.Share }, 0.0},
		"a word for 0":            {"pace: unlimited", func(s *shop) any { return s.Pace }, 0.0},
		"a word for no bytes":     {"bytes: unlimited", func(s *shop) any { return s.Bytes }, strict.Size(0)},
		"exponent":                {"share: 25e-2", func(s *shop) any { return s.Share }, 0.25},
		"false":                   {"open: false", func(s *shop) any { return s.Open }, false},
		"duration":                {"wait: 1m30s", func(s *shop) any { return time.Duration(s.Wait) }, 90 * time.Second},
		"size with unit":          {"room: 64KiB", func(s *shop) any { return s.Room }, strict.Size(65536)},
		"bare size":               {"room: 1000", func(s *shop) any { return s.Room }, strict.Size(1000)},
		"status by number":        {"status: 503", func(s *shop) any { return s.Status }, strict.Status(503)},
		"status auto":             {"status: auto", func(s *shop) any { return s.Status }, strict.Status(0)},
		"count":                   {"tills: 9", func(s *shop) any { return s.Tills }, strict.Count(9)},
		"count as text":           {`tills: "9"`, func(s *shop) any { return s.Tills }, strict.Count(9)},
		"count auto":              {"tills: auto", func(s *shop) any { return s.Tills }, strict.Auto},
		"list":                    {"words: [a, b]", func(s *shop) any { return s.Words }, []string{"a", "b"}},
		"block list":              {"words:\n  - a\n  - b", func(s *shop) any { return s.Words }, []string{"a", "b"}},
		"empty list is none":      {"words: []", func(s *shop) any { return s.Words == nil }, true},
		"one for a list":          {"nets: 10.0.0.0/8", func(s *shop) any { return s.Nets[0].String() }, "10.0.0.0/8"},
		"address for a range":     {"nets: [192.0.2.1]", func(s *shop) any { return s.Nets[0].String() }, "192.0.2.1/32"},
		"mapping of one's own":    {"prices: { tea: 2, \"a.b\": 0.5 }", func(s *shop) any { return s.Prices }, map[string]float64{"tea": 2, "a.b": 0.5}},
		"secret":                  {"key: hush", func(s *shop) any { return s.Key.Reveal() }, "hush"},
		"number for a secret":     {"key: 1234", func(s *shop) any { return s.Key.Reveal() }, "1234"},
		"word for a mapping":      {"line: auto", func(s *shop) any { return s.Line }, line{Auto: true, Depth: 4}},
		"mapping for a word":      {"line: { depth: 9 }", func(s *shop) any { return s.Line }, line{Depth: 9}},
		"empty mapping":           {"line: {}", func(s *shop) any { return s.Line }, line{Depth: 4}},
		"nothing for a mapping":   {"till:", func(s *shop) any { return s.Till.Kind }, "cash"},
		"elements have defaults":  {"shelves: [{ name: a }, { name: b, slots: 2 }]", func(s *shop) any { return s.Shelves }, []shelf{{Name: "a", Slots: 7}, {Name: "b", Slots: 2}}},
		"overlay as it is":        {"change: { anything: [1, { at: all }] }", func(s *shop) any { return len(s.Change) }, 1},
		"anchor":                  {"words: &w [a]\nshelves: [{ name: x }]", func(s *shop) any { return s.Words }, []string{"a"}},
		"alias":                   {"prices: { tea: &p 2, milk: *p }", func(s *shop) any { return s.Prices["milk"] }, 2.0},
		"merged keys are weaker":  {"shelves:\n  - &s { name: a, slots: 5 }\n  - { <<: *s, name: b }", func(s *shop) any { return s.Shelves[1] }, shelf{Name: "b", Slots: 5}},
		"first of several merged": {"shelves:\n  - &s { name: a, slots: 5 }\n  - &r { name: r, slots: 6 }\n  - { <<: [*r, *s], name: c }", func(s *shop) any { return s.Shelves[2].Slots }, 6},
		"byte order mark":         {"\xef\xbb\xbfport: 99", func(s *shop) any { return s.Port }, 99},
		"lines of another system": {"port: 98\r\nopen: false\r\n", func(s *shop) any { return s.Port }, 98},
	} {
		t.Run(name, func(t *testing.T) {
			text := tc.text + "\n"
			if name != "text" && name != "quoted number is text" && name != "block of text" {
				text += "name: x\n"
			}
			if diff := cmp.Diff(tc.want, tc.got(mustRead(t, text))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.text, diff)
			}
		})
	}
}

// What is written out is read again as the same, with secrets where they are to be
// revealed and without where not.
func TestRenderReadsBack(t *testing.T) {
	const text = `{ name: corner, port: 8080, share: 0.25, open: false, wait: 1m, room: 64KiB, key: hush, status: 503, words: [a, b],
		nets: [10.0.0.0/8, "::1"], prices: { tea: 2, "a.b": 0.5 }, secrets: { A: token }, till: { kind: card, fee: 1 }, line: auto,
		shelves: [{ name: a }, { name: b, slots: 2 }], change: { x: 1 } }`
	s := mustRead(t, text)
	b, err := strict.Render(s, nil, true)
	if err != nil {
		t.Fatal(err)
	}
	again := mustRead(t, string(b))
	// Numbers of an overlay have the type that the parser gave them.
	if diff := cmp.Diff(s, again, cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("read again from\n%s\n(-want +got):\n%s", b, diff)
	}
	b, err = strict.Render(s, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	redacted := mustRead(t, string(b))
	if redacted.Key.Reveal() != strict.Redacted || redacted.Secrets["A"].Reveal() != strict.Redacted {
		t.Errorf("secrets are rendered: %s", b)
	}
}

// Rendering leaves out what does not belong, keeps the order of the fields, sorts
// keys that are the operator's own, and hides passwords in URLs.
func TestRender(t *testing.T) {
	for name, tc := range map[string]struct {
		v    any
		want string
	}{
		"order":        {&till{Kind: "cash", Coins: 2, Fee: 9}, `{"kind":"cash","coins":2}`},
		"of the other": {&till{Kind: "card", Coins: 2, Fee: 9}, `{"kind":"card","fee":9}`},
		"count": {&struct {
			N strict.Count `yaml:"n"`
		}{4}, `{"n":4}`},
		"count auto": {&struct {
			N strict.Count `yaml:"n"`
		}{strict.Auto}, `{"n":"auto"}`},
		"word":    {&line{Auto: true, Depth: 9}, `"auto"`},
		"no word": {&line{Depth: 9}, `{"depth":9}`},
		"password": {&struct {
			U string `yaml:"u"`
		}{"http://me:secret@h:1/x"}, `{"u":"http://me:REDACTED@h:1/x"}`},
		"no password": {&struct {
			U string `yaml:"u"`
		}{"http://me@h:1/x"}, `{"u":"http://me@h:1/x"}`},
		"keys in a query": {&struct {
			U []string `yaml:"u"`
		}{[]string{"http://me:secret@h/x?apikey=secret&&n=&token#f", `up{x="https://h?a=b"}`, "https://h/?a", "why?"}}, `{"u":["http://me:REDACTED@h/x?apikey=REDACTED\u0026\u0026n=\u0026REDACTED#f","up{x=\"https://h?a=b\"}","https://h/?REDACTED","why?"]}`},
		"broken URL": {&struct {
			U string `yaml:"u"`
		}{"http://me:se cret@h:1"}, `{"u":"http://REDACTED@h:1"}`},
		"sorted": {&struct {
			M map[string]int `yaml:"m"`
		}{map[string]int{"b": 2, "a": 1}}, `{"m":{"a":1,"b":2}}`},
		"nil pointer": {&struct {
			P *till `yaml:"p"`
		}{}, `{}`},
		"pointer": {&struct {
			P *till `yaml:"p"`
		}{&till{Kind: "card", Fee: 1}}, `{"p":{"kind":"card","fee":1}}`},
		"empty overlay": {&struct {
			O strict.Overlay `yaml:"o"`
		}{}, `{"o":{}}`},
		"text that bites": {&struct {
			T string `yaml:"t"`
		}{"a\"b\n"}, `{"t":"a\"b\n"}`},
	} {
		b, err := strict.Render(tc.v, nil, false)
		if err != nil || string(b) != tc.want {
			t.Errorf("%s: Render = %s, %v; want %s", name, b, err, tc.want)
		}
	}
}
