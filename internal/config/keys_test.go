package config_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
)

// key is one key of the configuration that holds a single value, and a document in
// which it may stand.
type key struct {
	path []string // as in the document; an element of a list by its index
	typ  reflect.Type
	tag  reflect.StructTag
	base map[string]any
}

// String is the path as problems tell it.
func (k *key) String() string {
	var b strings.Builder
	for i, step := range k.path {
		switch _, err := strconv.Atoi(step); {
		case err == nil:
			fmt.Fprintf(&b, "[%s]", step)
		case i > 0:
			b.WriteString("." + step)
		default:
			b.WriteString(step)
		}
	}
	return b.String()
}

// variable is the variable that stands for the key.
func (k *key) variable() string { return "ADMITD_" + strings.ToUpper(strings.Join(k.path, "__")) }

// with returns the document with a value at the key; nil leaves it out.
func (k *key) with(name string, value any) []byte {
	doc := clone(k.base).(map[string]any)
	var at any = doc
	for _, step := range k.path[:len(k.path)-1] {
		if i, err := strconv.Atoi(step); err == nil {
			at = at.([]any)[i]
			continue
		}
		m := at.(map[string]any)
		if m[step] == nil {
			m[step] = map[string]any{}
		}
		at = m[step]
	}
	at.(map[string]any)[name] = value
	b, err := json.Marshal(doc)
	if err != nil {
		panic(err)
	}
	return b
}

// set is with for the key's own name.
func (k *key) set(value any) []byte { return k.with(k.path[len(k.path)-1], value) }

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, e := range out {
			out[name] = clone(e)
		}
		return out
	case []any:
		out := slices.Clone(v)
		for i, e := range out {
			out[i] = clone(e)
		}
		return out
	}
	return v
}

// said returns what is said of the key when it has a value.
func (k *key) said(content []byte) (all []string) {
	_, err := config.Parse("f", content, nil)
	for _, p := range problems(err) {
		if p.Path == k.String() {
			all = append(all, p.Message)
		}
	}
	return all
}

func problems(err error) config.Problems {
	all, _ := err.(config.Problems) //nolint:errorlint // Parse says that it is of that type
	return all
}

// base is a document in which everything of a protocol may stand.
func base(protocol string) map[string]any {
	backend := map[string]string{"http": "http://h:1", "mongodb": "db:27017", "pulsar": "pulsar://b:6650", "postgres": "db:5432"}[protocol]
	by := map[string]string{"http": "client", "mongodb": "user", "pulsar": "topic", "postgres": "user"}[protocol]
	return map[string]any{"ingresses": []any{map[string]any{
		"name": "a", "protocol": protocol, "listen": "127.0.0.1:1", "backend": backend,
		"partitions": map[string]any{"by": by, "named": []any{map[string]any{"name": "n", "match": "m"}}},
	}}}
}

// keys lists every key with a single value, of every protocol and every algorithm.
func keys() (all []key) {
	for _, protocol := range []string{"http", "mongodb", "postgres", "pulsar"} {
		walk(reflect.TypeFor[config.Config](), nil, base(protocol), protocol, &all)
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(k key) bool {
		again := seen[k.String()]
		seen[k.String()] = true
		return again
	})
}

// walk adds the keys of a struct.
func walk(t reflect.Type, path []string, doc map[string]any, protocol string, all *[]key) {
	selector := ""
	for f := range t.Fields() {
		if f.Tag.Get("selects") != "" {
			selector = f.Tag.Get("yaml")
		}
	}
	for f := range t.Fields() {
		here := append(slices.Clip(path), f.Tag.Get("yaml"))
		doc, belongs := doc, config.Words(f.Tag.Get("for"))
		switch {
		case f.Tag.Get("word") != "":
			continue // it stands for the mapping
		case selector == "protocol" && len(belongs) > 0 && !slices.Contains(belongs, protocol):
			continue
		case selector != "protocol" && len(belongs) > 0:
			k := key{path: append(slices.Clip(path), selector), base: doc}
			doc = map[string]any{}
			_ = json.Unmarshal(k.set(belongs[0]), &doc)
		}
		leaf := f.Type
		if leaf.Kind() == reflect.Pointer {
			leaf = leaf.Elem()
		}
		plain := reflect.PointerTo(leaf).Implements(reflect.TypeFor[interface{ UnmarshalText([]byte) error }]())
		switch {
		case leaf.Kind() == reflect.Struct && !plain:
			walk(leaf, here, doc, protocol, all)
		case leaf.Kind() == reflect.Slice && (here[len(here)-1] == "ingresses" || here[len(here)-1] == "named"):
			walk(leaf.Elem(), append(here, "0"), doc, protocol, all)
		case leaf.Kind() == reflect.Slice || leaf.Kind() == reflect.Map || leaf.Kind() == reflect.Struct:
		default:
			*all = append(*all, key{here, leaf, f.Tag, doc})
		}
	}
}

// TestKeysAreFound keeps the tests below from passing over nothing.
func TestKeysAreFound(t *testing.T) {
	all := keys()
	for _, want := range []string{
		"admin.listen", "fleet.redis.tls.caFile", "ingresses[0].http.maxIdle", "ingresses[0].mongodb.topology.mode", "ingresses[0].postgres.unit",
		"ingresses[0].pulsar.minPause", "ingresses[0].partitions.named[0].limit.alpha", "ingresses[0].partitions.default.limit.window.min", "tuner.trial.for",
	} {
		if !slices.ContainsFunc(all, func(k key) bool { return k.String() == want }) {
			t.Errorf("%s is not among the %d keys", want, len(all))
		}
	}
	if len(all) < 150 {
		t.Errorf("%d keys were found; want more than 150", len(all))
	}
}

// A key that is misspelt is refused, and the right one offered.
func TestKeyMisspelt(t *testing.T) {
	for _, k := range keys() {
		name := k.path[len(k.path)-1]
		wrong := name + "x"
		k.path[len(k.path)-1] = wrong
		want := fmt.Sprintf("unknown key, did you mean %q?", name)
		if got := k.said(k.set("1")); !slices.Equal(got, []string{want}) {
			t.Errorf("%s: %q; want %q", k.String(), got, want)
		}
	}
}

// limit is a bound of a key: as numbers compare, and as it is written.
type limit struct {
	number float64
	value  any
}

// bound reads what a tag says of a key.
func (k *key) bound(tag string) (limit, bool) {
	text, ok := k.tag.Lookup(tag)
	if !ok {
		return limit{}, false
	}
	switch k.typ {
	case reflect.TypeFor[config.Duration]():
		d, err := time.ParseDuration(text)
		return limit{float64(d), text}, err == nil
	case reflect.TypeFor[config.Size]():
		var s config.Size
		err := s.UnmarshalText([]byte(text))
		return limit{float64(s), int64(s)}, err == nil
	}
	n, err := strconv.ParseFloat(text, 64)
	return limit{n, n}, err == nil
}

// beyond writes the number next to a bound, in a direction.
func (k *key) beyond(b limit, by float64) any {
	switch k.typ {
	case reflect.TypeFor[config.Duration]():
		return time.Duration(b.number + by*float64(time.Microsecond)).String()
	case reflect.TypeFor[config.Size]():
		return int64(b.number + by)
	}
	if k.typ.Kind() == reflect.Float64 {
		return b.number + by*math.Max(math.Abs(b.number), 1)/1000
	}
	return b.number + by
}

// Each bound holds to the last unit: its value is taken, and the next one refused
// with the bound in the message. The schema, by which editors underline, says the
// same of plain numbers.
func TestKeyBounds(t *testing.T) {
	s := compiled(t)
	checked := 0
	for _, k := range keys() {
		for tag, words := range map[string]string{"min": "must be at least ", "max": "must be at most ", "below": "must be below "} {
			b, ok := k.bound(tag)
			if !ok {
				continue
			}
			checked++
			within, outside := b.value, k.beyond(b, 1)
			switch tag {
			case "min":
				outside = k.beyond(b, -1)
			case "below":
				within, outside = k.beyond(b, -1), b.value
			}
			want := words + k.tag.Get(tag)
			if got := k.said(k.set(within)); slices.Contains(got, want) { // what it is beside other keys is another matter
				t.Errorf("%s: %v is refused: %q", k.String(), within, got)
			}
			got := k.said(k.set(outside))
			negative := len(got) == 1 && b.number == 0 && strings.Contains(got[0], "is not a size")
			if len(got) != 1 || !strings.HasPrefix(got[0], want) && !negative {
				t.Errorf("%s: %v: %q; want %s", k.String(), outside, got, want)
			}
			if _, number := outside.(float64); number && s.Validate(instance(t, k.set(outside))) == nil {
				t.Errorf("%s: the schema takes %v", k.String(), outside)
			}
		}
	}
	if checked < 100 {
		t.Errorf("only %d bounds were checked", checked)
	}
}

// A choice takes each of its words and no other, in the file and by the schema.
func TestKeyChoices(t *testing.T) {
	s := compiled(t)
	checked := 0
	for _, k := range keys() {
		words := config.Words(k.tag.Get("enum"))
		if len(words) == 0 || k.path[len(k.path)-1] == "protocol" {
			continue
		}
		checked++
		for _, word := range words {
			if got := k.said(k.set(word)); slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, "must be "+words[0]) }) {
				t.Errorf("%s: %s is refused: %q", k.String(), word, got)
			}
		}
		got := k.said(k.set("nonesuch"))
		if len(got) != 1 || !strings.HasPrefix(got[0], "must be "+words[0]) {
			t.Errorf("%s: nonesuch: %q; want the %d words", k.String(), got, len(words))
		}
		if s.Validate(instance(t, k.set("nonesuch"))) == nil {
			t.Errorf("%s: the schema takes nonesuch", k.String())
		}
	}
	if checked < 10 {
		t.Errorf("only %d choices were checked", checked)
	}
}

// What is of another kind than the key wants is refused in words that say which
// kind that is, and the schema refuses it too.
func TestKeyKinds(t *testing.T) {
	s := compiled(t)
	for _, k := range keys() {
		var wrong any = map[string]any{"a": 1}
		want := "must be one value, not a mapping"
		if words := config.Words(k.tag.Get("enum")); len(words) > 0 {
			want = "must be " + words[0]
		}
		if got := k.said(k.set(wrong)); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: a mapping: %q; want %s", k.String(), got, want)
		}
		if s.Validate(instance(t, k.set(wrong))) == nil {
			t.Errorf("%s: the schema takes a mapping", k.String())
		}
		switch kind := k.typ.Kind(); {
		case k.typ == reflect.TypeFor[config.Duration]():
			wrong, want = "soon", "is not a duration"
		case k.typ == reflect.TypeFor[config.Size]():
			wrong, want = "much", "is not a size"
		case kind == reflect.Bool:
			wrong, want = "perhaps", "must be true or false"
		case kind == reflect.Int:
			wrong, want = 1.5, "must be a whole number"
		case kind == reflect.Float64:
			wrong, want = "fast", "must be a number"
		default:
			continue
		}
		if k.tag.Get("enum") != "" {
			continue // the words are told instead
		}
		if got := k.said(k.set(wrong)); len(got) != 1 || !strings.HasPrefix(got[0], want) {
			t.Errorf("%s: %v: %q; want %s", k.String(), wrong, got, want)
		}
		if s.Validate(instance(t, k.set(wrong))) == nil {
			t.Errorf("%s: the schema takes %v", k.String(), wrong)
		}
	}
}

// written is a text of a tag as a file has it.
func (k *key) written(text string) any {
	switch kind := k.typ.Kind(); {
	case kind == reflect.Bool:
		return text == "true"
	case k.typ == reflect.TypeFor[int]() || kind == reflect.Float64:
		n, _ := strconv.ParseFloat(text, 64)
		return n
	}
	return text
}

// effective is what a document comes to, "" when it does not hold.
func effective(content []byte, env ...string) string {
	c, err := config.Parse("f", content, env)
	if err != nil {
		return ""
	}
	b, err := c.Effective()
	if err != nil {
		return ""
	}
	return string(b)
}

// A default is what the key is without being written: written out, or with no
// value, it changes nothing.
func TestKeyDefaults(t *testing.T) {
	checked := 0
	for _, k := range keys() {
		def, ok := k.tag.Lookup("default")
		whole := effective(k.set(nil))
		if !ok || whole == "" || k.tag.Get("per") != "" || k.tag.Get("selects") != "" {
			continue
		}
		checked++
		value := k.written(def)
		if got := effective(k.set(value)); got != whole {
			t.Errorf("%s: with its default %v written out the configuration is another:\n%v", k.String(), value, k.said(k.set(value)))
		}
	}
	if checked < 80 {
		t.Errorf("only %d defaults were checked", checked)
	}
}

// A variable says what the file would, for every key, and where it came from can be
// told.
func TestKeyVariables(t *testing.T) {
	checked := 0
	for _, k := range keys() {
		text := k.tag.Get("default")
		for _, tag := range []string{"min", "max"} { // another than the default
			if b := k.tag.Get(tag); b != "" && b != k.tag.Get("default") {
				text = b
			}
		}
		if text == "true" || text == "false" {
			text = strconv.FormatBool(text != "true")
		}
		if words := config.Words(k.tag.Get("enum")); len(words) > 0 {
			text = words[len(words)-1]
		}
		file := effective(k.set(k.written(text)))
		if text == "" || file == "" {
			continue
		}
		checked++
		plain, _ := json.Marshal(k.base)
		if k.path[len(k.path)-1] == "protocol" || k.tag.Get("selects") != "" {
			continue
		}
		env := k.variable() + "=" + text
		if got := effective(plain, env); got != file {
			_, err := config.Parse("f", plain, []string{env})
			t.Errorf("%s gives another configuration than %s in the file: %v", env, text, err)
		}
		if got := config.Sources("f", plain, []string{env})(k.String()); got != "$"+k.variable() {
			t.Errorf("%s comes from %q; want the variable", k.String(), got)
		}
	}
	if checked < 80 {
		t.Errorf("only %d variables were checked", checked)
	}
}
