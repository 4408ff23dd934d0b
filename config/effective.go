package config

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

// Effective renders c as JSON in the order of the documentation, with every
// default filled in, keys that do not belong left out, and secrets redacted.
// JSON is YAML: what is rendered can be parsed again, less the secrets.
func (c *Config) Effective() ([]byte, error) {
	b := renderer{}
	if err := b.value(reflect.ValueOf(c).Elem()); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b.Bytes(), "", "  "); err != nil {
		return nil, fmt.Errorf("config: rendering: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// renderer collects JSON.
type renderer struct {
	bytes.Buffer
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
	all := fields(v.Type())
	if f := wordField(all); f != nil && v.Field(f.index).Bool() {
		return b.json(f.word)
	}
	selected := ""
	for _, f := range all {
		if f.selects {
			selected = v.Field(f.index).String()
		}
	}
	b.WriteByte('{')
	first := true
	for _, f := range all {
		fv := v.Field(f.index)
		if f.word != "" || !f.in(selected) || fv.Kind() == reflect.Pointer && fv.IsNil() {
			continue
		}
		if !first {
			b.WriteByte(',')
		}
		first = false
		fmt.Fprintf(b, "%q:", f.name)
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

// redactURL hides the password in a URL; other text is returned as it is.
func redactURL(s string) string {
	scheme, rest, ok := strings.Cut(s, "://")
	if !ok || !strings.Contains(rest, "@") {
		return s
	}
	if u, err := url.Parse(s); err == nil {
		if u.User == nil {
			return s
		}
		if _, set := u.User.Password(); set {
			u.User = url.UserPassword(u.User.Username(), redacted)
		}
		return u.String()
	}
	return scheme + "://" + redacted + rest[strings.LastIndexByte(rest, '@'):]
}
