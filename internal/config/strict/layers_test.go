package strict_test

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config/strict"
)

// A variable sets whatever a key can be, over what the file says, however its name
// is cased and parted.
func TestVariables(t *testing.T) {
	const file = "name: x\nport: 81\nshelves: [{ name: a, slots: 2 }]\nprices: { tea: 1 }\nline: auto\n"
	for name, tc := range map[string]struct {
		env  []string
		got  func(s *shop) any
		want any
	}{
		"nested":                 {[]string{"ADMITD_TILL__KIND=card"}, func(s *shop) any { return s.Till }, till{Kind: "card", Fee: 3}},
		"case does not count":    {[]string{"ADMITD_till__Kind=card"}, func(s *shop) any { return s.Till.Kind }, "card"},
		"nor do underscores":     {[]string{"ADMITD_TILL__K_I_N_D=card"}, func(s *shop) any { return s.Till.Kind }, "card"},
		"of a list's element":    {[]string{"ADMITD_SHELVES__0__SLOTS=9"}, func(s *shop) any { return s.Shelves[0] }, shelf{Name: "a", Slots: 9}},
		"one more element":       {[]string{"ADMITD_SHELVES__1__NAME=b"}, func(s *shop) any { return s.Shelves[1] }, shelf{Name: "b", Slots: 7}},
		"two more elements":      {[]string{"ADMITD_SHELVES__2__NAME=c", "ADMITD_SHELVES__1__NAME=b"}, func(s *shop) any { return len(s.Shelves) }, 3},
		"key of the operator":    {[]string{"ADMITD_PRICES__Tea=2"}, func(s *shop) any { return s.Prices }, map[string]float64{"tea": 1, "Tea": 2}},
		"element of words":       {[]string{"ADMITD_WORDS__0=a"}, func(s *shop) any { return s.Words }, []string{"a"}},
		"word leaves the others": {[]string{"ADMITD_LINE__DEPTH=2"}, func(s *shop) any { return s.Line }, line{Depth: 2}},
		"at the top":             {[]string{"ADMITD_PORT=1"}, func(s *shop) any { return s.Port }, 1},
		"no key's":               {[]string{"ADMITD_PORTS=1", "ADMITD_TILL=1", "OTHER__PORT=1", "ADMITD_=1"}, func(s *shop) any { return s.Port }, 81},
		"broken entry":           {[]string{"ADMITD_TILL__KIND"}, func(s *shop) any { return s.Till.Kind }, "cash"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.got(mustRead(t, file, tc.env...))); diff != "" {
				t.Errorf("with %q (-want +got):\n%s", tc.env, diff)
			}
		})
	}
}

// A variable at fault is named, instead of a line of the file.
func TestVariablesAtFault(t *testing.T) {
	for name, tc := range map[string]struct{ env, want string }{
		"unknown":          {"ADMITD_TILL__KINDS=1", `$ADMITD_TILL__KINDS: till.kinds: unknown key, did you mean "kind"?`},
		"below a leaf":     {"ADMITD_TILL__KIND__X=1", "$ADMITD_TILL__KIND__X: till.kind: has no keys below it (X)"},
		"no single value":  {"ADMITD_SHELVES__0=1", "$ADMITD_SHELVES__0: shelves[0]: sets no single value; add __ and a key"},
		"no index":         {"ADMITD_SHELVES__FIRST__NAME=1", "$ADMITD_SHELVES__FIRST__NAME: shelves: is a list and needs an index from 0 (FIRST)"},
		"gap":              {"ADMITD_SHELVES__4__NAME=1", "$ADMITD_SHELVES__4__NAME: shelves[4].name: is beyond the list, which has 1 elements"},
		"wrong value":      {"ADMITD_TILL__COINS=many", "$ADMITD_TILL__COINS: till.coins: must be a whole number (many)"},
		"out of bounds":    {"ADMITD_TILL__COINS=-1", "$ADMITD_TILL__COINS: till.coins: must be at least 0 (-1)"},
		"a secret's value": {"ADMITD_SECRETS__A__B=hush", "$ADMITD_SECRETS__A__B: secrets.A: has no keys below it (REDACTED)"},
	} {
		got := said(t, "name: x\nshelves: [{ name: a }]\n", tc.env)
		if diff := cmp.Diff([]string{tc.want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	got := said(t, "name: x\n", "ADMITD_TILL__KIND=card", "ADMITD_till__kind=cash")
	if diff := cmp.Diff([]string{"$ADMITD_till__kind: till.kind: is set by $ADMITD_TILL__KIND already"}, got); diff != "" {
		t.Errorf("two for one key (-want +got):\n%s", diff)
	}
}

// A patch is laid over what is there: mappings key by key, elements by their name,
// anything else as a whole, and only where it is allowed.
func TestPatch(t *testing.T) {
	const old = `{ mode: on, size: 3, tags: [x], limit: { algorithm: a, max: 5 }, parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 5 } }, { name: q }] }`
	for name, tc := range map[string]struct{ patch, want, problem string }{
		"a value":            {`{ mode: off }`, `{ mode: off, size: 3, tags: [x], limit: { algorithm: a, max: 5 }, parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 5 } }, { name: q }] }`, ""},
		"one key of many":    {`{ limit: { max: 6 } }`, `{ mode: on, size: 3, tags: [x], limit: { algorithm: a, max: 6 }, parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 5 } }, { name: q }] }`, ""},
		"another algorithm":  {`{ limit: { algorithm: b } }`, `{ mode: on, size: 3, tags: [x], limit: { algorithm: b }, parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 5 } }, { name: q }] }`, ""},
		"an element by name": {`{ parts: [{ name: q, rate: 2 }, { name: p, limit: { max: 9 } }] }`, `{ mode: on, size: 3, tags: [x], limit: { algorithm: a, max: 5 }, parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 9 } }, { name: q, rate: 2 }] }`, ""},
		"not allowed":        {`{ size: 4 }`, "", "patch:1: size: cannot be changed while the gate runs, only in the file"},
		"unknown name":       {`{ parts: [{ name: r }] }`, "", "patch:1: parts: there is no partition of that name (r)"},
		"no name":            {`{ parts: [{ rate: 2 }] }`, "", "patch:1: parts: must hold mappings that begin with the name of a partition (a mapping)"},
		"list for a mapping": {`{ limit: [1] }`, `{ mode: on, size: 3, tags: [x], limit: [1], parts: [{ name: p, rate: 1, limit: { algorithm: a, max: 5 } }, { name: q }] }`, ""},
	} {
		r := strict.NewReport("patch", strict.Options{})
		was, ok := r.PlainValues([]byte(old))
		patch, ok2 := r.PlainValues([]byte(tc.patch))
		if !ok || !ok2 {
			t.Fatalf("%s: %v", name, r.Err())
		}
		r.ForgetLines()
		r.Patch("", strict.Allowed{"mode": nil, "limit": nil, "parts": nil}, patch, was)
		if tc.problem != "" {
			if err := r.Err(); err == nil || err.Error() != tc.problem {
				t.Errorf("%s: problems %v; want %s", name, err, tc.problem)
			}
			continue
		}
		want, _ := r.PlainValues([]byte(tc.want))
		if diff := cmp.Diff(want, was); diff != "" || r.Err() != nil {
			t.Errorf("%s (-want +got, %v):\n%s", name, r.Err(), diff)
		}
	}
	if _, ok := strict.NewReport("patch", strict.Options{}).PlainValues([]byte("- a list\n")); ok {
		t.Error("a list passes for a mapping")
	}
}

// Files that are named for reading are opened, wherever they are named; one that
// cannot be read is a problem at its line, and an empty name is none.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	good, empty := filepath.Join(dir, "good.pem"), filepath.Join(dir, "empty.pem")
	for file, content := range map[string]string{good: "x", empty: ""} {
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &shop{Cert: good, Shelves: []shelf{{Name: "a", Cert: empty}, {Name: "b", Cert: filepath.Join(dir, "gone.pem")}, {Name: "c"}, {Name: "d", Cert: dir}}}
	r := strict.NewReport("f", strict.Options{})
	r.Files("", reflect.ValueOf(s).Elem())
	var got []string
	for _, p := range r.Err().(strict.Problems) { //nolint:errorlint,forcetypeassert // it is nothing else
		got = append(got, p.Path+" "+p.Message)
	}
	want := []string{"shelves[0].cert is an empty file", "shelves[1].cert cannot be read: no such file or directory", "shelves[3].cert cannot be read: is a directory"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
}

// A set of words may have a name; whose values they are is for the caller to know.
func TestTags(t *testing.T) {
	type named struct {
		Kind string `yaml:"kind" default:"a" enum:"@kinds"`
	}
	tags := strict.Tags(func(tag string) []string {
		if tag == "@kinds" {
			return []string{"a", "b"}
		}
		return nil
	})
	for kind, want := range map[string]string{"b": "", "zebra": "f:1: kind: must be a or b (zebra)"} {
		r := strict.NewReport("f", strict.Options{Tags: tags})
		merged, err := r.Layers(reflect.TypeFor[named](), []byte("kind: "+kind+"\n"), nil)
		if err != nil {
			t.Fatal(err)
		}
		var n named
		if err := r.Decode(merged, &n); err != nil {
			t.Fatal(err)
		}
		if got := r.Err(); got != nil && got.Error() != want || got == nil && want != "" {
			t.Errorf("kind %s: %v; want %q", kind, got, want)
		}
	}
	var keys []string
	for key := range strict.Tags(nil).Keys(reflect.ValueOf(till{Kind: "card"})) {
		keys = append(keys, key)
	}
	if diff := cmp.Diff([]string{"kind", "fee"}, keys); diff != "" {
		t.Errorf("keys of a till for cards (-want +got):\n%s", diff)
	}
}
