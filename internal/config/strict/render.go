package strict

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
)

// Render returns the JSON of a configuration struct in the order of its fields:
// keys that do not belong are left out, and secrets shown only where they are to
// be revealed.
func Render(v any, tags Tags, reveal bool) ([]byte, error) {
	b := renderer{tags: tags, reveal: reveal}
	if err := b.value(reflect.ValueOf(v).Elem()); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// renderer collects JSON.
type renderer struct {
	bytes.Buffer
	tags   Tags
	reveal bool // secrets too
}

func (b *renderer) value(v reflect.Value) error {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch {
	case isText(v.Type()):
		return b.text(v)
	case v.Type() == reflect.TypeFor[Overlay]():
		if v.IsNil() {
			return b.json(Overlay{})
		}
		return b.json(v.Interface())
	case v.Kind() == reflect.Struct:
		return b.object(v)
	case v.Kind() == reflect.Slice:
		b.WriteByte('[')
		for i := range v.Len() {
			if i > 0 {
				b.WriteByte(',')
			}
			if err := b.value(v.Index(i)); err != nil {
				return err
			}
		}
		b.WriteByte(']')
		return nil
	case v.Kind() == reflect.Map:
		return b.entries(v)
	case v.Kind() == reflect.String:
		if b.reveal {
			return b.json(v.String())
		}
		return b.json(redactURL(v.String()))
	default:
		return b.json(v.Interface())
	}
}

func (b *renderer) object(v reflect.Value) error {
	if f := wordField(b.tags.fields(v.Type())); f != nil && v.Field(f.index).Bool() {
		return b.json(f.word)
	}
	b.WriteByte('{')
	first := true
	for key, fv := range b.tags.Keys(v) {
		if fv.Kind() == reflect.Pointer && fv.IsNil() {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(b, "%q:", key)
		if err := b.value(fv); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

func (b *renderer) entries(v reflect.Value) error {
	entries := map[string]reflect.Value{}
	for k, e := range v.Seq2() {
		entries[k.String()] = e
	}
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(entries)) {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := b.json(k); err != nil {
			return err
		}
		b.WriteByte(':')
		if err := b.value(entries[k]); err != nil {
			return err
		}
	}
	b.WriteByte('}')
	return nil
}

// text renders a value that has a text of its own. Statuses and bare
// sizes are text too: the parser takes either.
func (b *renderer) text(v reflect.Value) error {
	if s, secret := reflect.TypeAssert[Secret](v); secret && b.reveal {
		return b.json(s.Reveal())
	}
	if n, count := reflect.TypeAssert[Count](v); count && n != Auto {
		return b.json(int(n))
	}
	m, ok := reflect.TypeAssert[encoding.TextMarshaler](v)
	if !ok {
		return fmt.Errorf("config: rendering: %s has no text", v.Type())
	}
	text, err := m.MarshalText()
	if err != nil {
		return fmt.Errorf("config: rendering: %w", err)
	}
	return b.json(string(text))
}

func (b *renderer) json(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("config: rendering: %w", err)
	}
	b.Write(text)
	return nil
}

// redactURL hides the password in a URL, and the values of its query, which may hold
// a key; other text is returned as it is.
func redactURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !strings.ContainsAny(rest, "@?") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil && !strings.Contains(rest, "@") {
		return s // no URL
	}
	if err != nil {
		return scheme + "://" + Redacted + rest[strings.LastIndexByte(rest, '@'):]
	}
	if _, set := u.User.Password(); set {
		u.User = url.UserPassword(u.User.Username(), Redacted)
		s = u.String()
	}
	before, query, found := strings.Cut(s, "?")
	if !found {
		return s
	}
	query, fragment, hash := strings.Cut(query, "#")
	parameters := strings.Split(query, "&")
	for i, p := range parameters {
		if name, value, _ := strings.Cut(p, "="); value != "" {
			parameters[i] = name + "=" + Redacted
		} else if name != "" && !strings.Contains(p, "=") {
			parameters[i] = Redacted // the whole query may be the key
		}
	}
	s = before + "?" + strings.Join(parameters, "&")
	if hash {
		s += "#" + fragment
	}
	return s
}

// redactAddress hides the password of an address that was written as of a URL
// without its scheme.
func redactAddress(s string) string {
	at := strings.LastIndexByte(s, '@')
	if at < 0 || strings.Contains(s, "://") {
		return redactURL(s)
	}
	if colon := strings.IndexByte(s[:at], ':'); colon >= 0 {
		return s[:colon+1] + Redacted + s[at:]
	}
	return s
}
