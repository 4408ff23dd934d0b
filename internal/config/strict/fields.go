package strict

import (
	"encoding"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// field is what the tags of a struct field say.
type field struct {
	name       string
	index      int
	typ        reflect.Type
	def        string
	hasDefault bool
	per        map[string]string // default by value of the selecting key
	bounds     bounds
	enum       []string
	belongs    []string // values of the selecting key; empty = all
	required   bool
	single     bool
	selects    bool
	zero       string // a word that says 0; "" = there is none
	word       string // stands for the whole mapping and sets this field alone; "" = is none
}

// bounds are those of a number, or of what has a magnitude.
type bounds struct {
	min, max         float64 // inclusive
	minText, maxText string
	below            bool // max is exclusive
}

// Tags expands the words of a tag, so that a set of them may have a name; nil =
// words stand for themselves.
type Tags func(tag string) []string

// words returns the words of a tag.
func (w Tags) words(tag string) []string {
	if w == nil {
		return strings.Fields(tag)
	}
	return w(tag)
}

// fields returns the fields of a configuration struct in order.
func (w Tags) fields(t reflect.Type) []field {
	out := make([]field, 0, t.NumField())
	for i := range t.NumField() {
		sf := t.Field(i)
		f := field{name: sf.Tag.Get("yaml"), index: i, typ: sf.Type, bounds: bounds{min: math.Inf(-1), max: math.Inf(1)}}
		f.def, f.hasDefault = sf.Tag.Lookup("default")
		f.enum = w.words(sf.Tag.Get("enum"))
		f.belongs = w.words(sf.Tag.Get("for"))
		f.required = sf.Tag.Get("required") != ""
		f.single = sf.Tag.Get("single") != ""
		f.selects = sf.Tag.Get("selects") != ""
		f.word = sf.Tag.Get("word")
		f.zero = sf.Tag.Get("zero")
		f.per = map[string]string{}
		for p := range strings.FieldsSeq(sf.Tag.Get("per")) {
			k, v, _ := strings.Cut(p, "=")
			f.per[k] = v
		}
		f.bounds.read(sf.Type, sf.Tag)
		out = append(out, f)
	}
	return out
}

// Keys yields the keys of a configuration struct and their values, in order. Those
// that do not belong to the value of the selecting key are left out.
func (w Tags) Keys(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		all := w.fields(v.Type())
		selected := ""
		for _, f := range all {
			if f.selects {
				selected = v.Field(f.index).String()
			}
		}
		for _, f := range all {
			if f.word == "" && f.in(selected) && !yield(f.name, v.Field(f.index)) {
				return
			}
		}
	}
}

// read takes the bounds of values of type leaf, or of its elements, from a tag.
func (b *bounds) read(leaf reflect.Type, tag reflect.StructTag) {
	if leaf.Kind() == reflect.Map || leaf.Kind() == reflect.Slice {
		leaf = leaf.Elem()
	}
	if s, ok := tag.Lookup("min"); ok {
		b.min, b.minText = magnitude(leaf, s), s
	}
	if s, ok := tag.Lookup("max"); ok {
		b.max, b.maxText = magnitude(leaf, s), s
	}
	if s, ok := tag.Lookup("below"); ok {
		b.max, b.maxText, b.below = magnitude(leaf, s), s, true
	}
}

// wordField returns the field that a word in place of the mapping sets, nil when
// there is none.
func wordField(all []field) *field {
	for i := range all {
		if all[i].word != "" {
			return &all[i]
		}
	}
	return nil
}

// defaultFor returns the default when the selecting key has the given value.
func (f *field) defaultFor(selected string) string {
	if s, ok := f.per[selected]; ok {
		return s
	}
	return f.def
}

// in reports whether the field belongs to the value of the selecting key.
func (f *field) in(selected string) bool {
	return len(f.belongs) == 0 || slices.Contains(f.belongs, selected)
}

// magnitude returns what a bound in a tag means for values of type t.
func magnitude(t reflect.Type, s string) float64 {
	if isText(t) {
		v := reflect.New(t)
		if u, ok := reflect.TypeAssert[encoding.TextUnmarshaler](v); ok && u.UnmarshalText([]byte(s)) == nil {
			return float64(v.Elem().Int())
		}
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return math.NaN()
	}
	return n
}

// isText reports whether values of type t are written as text of their own.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// Nearest returns the candidate most like word, or "" when none is near
// enough to be meant.
func Nearest(word string, candidates []string) string {
	best, most := "", 1+len(word)/3
	if strings.Trim(word, "0123456789") == "" {
		return ""
	}
	for _, c := range candidates {
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d <= most {
			best, most = c, d-1
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of
// neighbours between a and b, which are short.
func distance(a, b string) int {
	if len(a) > 64 || len(b) > 64 {
		return 64
	}
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range b {
		rows[0][j+1] = j + 1
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			d := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				d = min(d, rows[i-2][j-2]+1)
			}
			rows[i][j] = d
		}
	}
	return rows[len(a)][len(b)]
}
