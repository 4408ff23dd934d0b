package strict

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// Environment variables that override keys begin with envPrefix and have
// envLevel between levels. What has no envLevel is an override only if it names a
// key that lies no level deep: cluster managers inject variables of their own
// under the name of a service (ADMITD_PORT, ADMITD_SERVICE_HOST).
const (
	envPrefix = "ADMITD_"
	envLevel  = "__"
	// envDelim joins steps of a path inside koanf, envIndex marks a step as an
	// index. Neither can be part of a variable's name.
	envDelim = "\x1f"
	envIndex = "\x00"
)

// environment reads the variables that override keys.
type environment struct{ *Report }

// override is one environment variable and the key it sets.
type override struct {
	name  string
	path  string   // as problems show it
	steps []string // as koanf sees it
	value any
}

// overrides resolves every ADMITD_ variable against the structs. Level names
// are matched without regard to case and single underscores, so that both
// ADMIN__TOKENFILE and ADMIN__TOKEN_FILE mean admin.tokenFile; keys that are
// the operator's own are taken as written.
func (r environment) overrides(root reflect.Type, env []string) []override {
	var out []override
	for _, e := range slices.Sorted(slices.Values(env)) {
		name, value, ok := strings.Cut(e, "=")
		if !ok || !strings.HasPrefix(name, envPrefix) || !strings.Contains(name[len(envPrefix):], envLevel) && !r.isTopKey(root, name[len(envPrefix):]) {
			continue
		}
		if o, ok := r.override(root, name, value); ok {
			out = append(out, o)
		}
	}
	return out
}

// isTopKey reports whether step names a single value at the top level.
func (r environment) isTopKey(root reflect.Type, step string) bool {
	return slices.ContainsFunc(r.o.Tags.fields(root), func(f field) bool {
		return isSingle(f.typ) && strings.EqualFold(f.name, strings.ReplaceAll(step, "_", ""))
	})
}

// isSingle reports whether a key of type t holds one value.
func isSingle(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Pointer:
		return isText(t)
	default:
		return true
	}
}

func (r environment) override(t reflect.Type, name, text string) (override, bool) {
	o := override{name: name}
	for step := range strings.SplitSeq(name[len(envPrefix):], envLevel) {
		next, ok := r.step(&o, t, step)
		if !ok {
			return o, false
		}
		t = next
	}
	switch {
	case isText(t):
	case t.Kind() == reflect.Struct && r.isWord(t, text):
		o.value = text
		return o, true
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map, t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct && !isText(t.Elem()):
		r.variable(name, o.path, "sets no single value; add "+envLevel+" and a key", nil)
		return o, false
	case t.Kind() == reflect.Slice:
		o.value = words(text)
		return o, true
	default:
	}
	o.value = fromText(t, text)
	return o, true
}

// isWord reports whether text stands for a whole mapping of type t.
func (r environment) isWord(t reflect.Type, text string) bool {
	f := wordField(r.o.Tags.fields(t))
	return f != nil && f.word == text
}

// step descends one level into t.
func (r environment) step(o *override, t reflect.Type, step string) (reflect.Type, bool) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case isText(t):
	case t.Kind() == reflect.Struct:
		return r.stepInto(o, t, step)
	case t.Kind() == reflect.Slice:
		i, err := strconv.Atoi(step)
		if err != nil || i < 0 || i > maxValues {
			r.variable(o.name, o.path, "is a list and needs an index from 0", step)
			return nil, false
		}
		o.path, o.steps = Element(o.path, i), append(o.steps, envIndex+step)
		return pointed(t.Elem()), true
	case t.Kind() == reflect.Map:
		o.path, o.steps = Join(o.path, step), append(o.steps, step)
		return t.Elem(), true
	default:
	}
	r.variable(o.name, o.path, "has no keys below it", step)
	return nil, false
}

func (r environment) stepInto(o *override, t reflect.Type, step string) (reflect.Type, bool) {
	all := r.o.Tags.fields(t)
	names := make([]string, len(all))
	for i, f := range all {
		if strings.EqualFold(f.name, strings.ReplaceAll(step, "_", "")) {
			o.path, o.steps = Join(o.path, f.name), append(o.steps, f.name)
			return pointed(f.typ), true
		}
		names[i] = f.name
	}
	message := "unknown key"
	if n := Nearest(strings.ReplaceAll(step, "_", ""), names); n != "" {
		message += fmt.Sprintf(", did you mean %q?", n)
	}
	r.variable(o.name, Join(o.path, strings.ToLower(step)), message, nil)
	return nil, false
}

func pointed(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// distinct drops and reports overrides that reach into what another one sets
// as a whole: which of the two wins would be chance.
func (r environment) distinct(all []override) []override {
	var out []override
	for _, o := range all {
		i := slices.IndexFunc(all, func(p override) bool {
			return p.name < o.name && (inside(p.path, o.path) || inside(o.path, p.path))
		})
		if i < 0 {
			out = append(out, o)
			continue
		}
		r.variable(o.name, o.path, "is set by $"+all[i].name+" already", nil)
	}
	return out
}

// inside reports whether path is at or below top.
func inside(path, top string) bool {
	rest, ok := strings.CutPrefix(path, top)
	return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// words splits the value of a list of words at commas; empty text is an empty
// list.
func words(text string) []any {
	out := []any{}
	for w := range strings.SplitSeq(text, ",") {
		if w = strings.TrimSpace(w); w != "" {
			out = append(out, w)
		}
	}
	return out
}

// overlay is the koanf merge function of the environment layer: mappings merge
// key by key, as they do by default, and marked indices reach into lists.
func (r environment) overlay(src, dst map[string]any) error {
	r.overlayAt("", src, dst)
	return nil
}

func (r environment) overlayAt(path string, src, dst map[string]any) {
	for k, v := range src {
		dst[k] = r.laid(Join(path, k), v, dst[k])
	}
}

// laid returns the value v of the environment laid over the value old.
func (r environment) laid(path string, v, old any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	for k := range m {
		if strings.HasPrefix(k, envIndex) {
			return r.laidList(path, m, old)
		}
	}
	into, ok := old.(map[string]any)
	if !ok {
		into = map[string]any{}
	}
	r.overlayAt(path, m, into)
	return into
}

// laidList replaces elements of the list old, or appends the next ones.
func (r environment) laidList(path string, m map[string]any, old any) any {
	l, _ := old.([]any)
	l = slices.Clone(l)
	indices := make([]int, 0, len(m))
	for k := range m {
		if i, err := strconv.Atoi(strings.TrimPrefix(k, envIndex)); err == nil {
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	for _, i := range indices {
		v := m[envIndex+strconv.Itoa(i)]
		switch {
		case i < len(l):
			l[i] = r.laid(Element(path, i), v, l[i])
		case i == len(l):
			l = append(l, r.laid(Element(path, i), v, nil))
		default:
			r.gap(Element(path, i), len(l))
		}
	}
	return l
}

// gap reports every variable that sets something in a list element which
// would leave a gap before it.
func (r environment) gap(path string, length int) {
	for p, name := range r.envs {
		if inside(p, path) {
			r.variable(name, p, fmt.Sprintf("is beyond the list, which has %d elements", length), nil)
		}
	}
}
