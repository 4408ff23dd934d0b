package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Patterns of the types that are written as text. They accept a little more
// than the parser does; admitd check has the last word.
const (
	durationPattern = `^(0|[-+]?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+)$`
	sizePattern     = `^[0-9]+(\.[0-9]+)?([KMGT]i?B|B)?$`
)

// saidOfPattern is what the YAML language server says where a pattern does not
// hold, in place of the pattern; other validators pass it over.
const saidOfPattern = "patternErrorMessage"

// schema renders the model as a JSON Schema.
func (m model) schema() ([]byte, error) {
	defs := map[string]any{}
	for name, o := range m {
		if name != "Config" {
			defs[name] = m.object(o)
		}
	}
	root := m.object(m["Config"])
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	root["$id"] = "https://github.com/admitd/admitd/config/schema.json"
	root["title"] = "admitd configuration"
	root["$defs"] = defs
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		return nil, fmt.Errorf("encoding the schema: %w", err)
	}
	return b.Bytes(), nil
}

func (m model) object(o *object) map[string]any {
	properties := map[string]any{}
	var required []string
	for i := range o.fields {
		f := &o.fields[i]
		if f.tag.Get("word") == "" { // written in place of the mapping
			properties[f.name] = m.property(f)
		}
		if f.tag.Get("required") != "" && len(f.words("for")) == 0 {
			required = append(required, f.name)
		}
	}
	s := map[string]any{
		"type": "object", "description": o.doc, "properties": properties, "additionalProperties": false,
	}
	if w := o.word(); w != nil { // of text this word alone; alternatives would tell one mistake twice
		s["type"], s["pattern"] = []any{"object", "string"}, "^"+w.tag.Get("word")+"$"
		s[saidOfPattern] = "want the word " + w.tag.Get("word") + ", or a mapping"
	}
	if required != nil {
		s["required"] = required
	}
	if sel := o.selector(); sel != nil {
		s["allOf"] = o.choices(sel)
	}
	return s
}

// choices forbids, for each value of the selecting key, the keys that do not
// belong to it, and requires those that it needs.
func (o *object) choices(sel *field) []any {
	var all []any
	for _, v := range sel.words("enum") {
		condition := map[string]any{"properties": map[string]any{sel.name: map[string]any{"const": v}}}
		if v != sel.tag.Get("default") {
			condition["required"] = []string{sel.name}
		}
		then := map[string]any{}
		var required []string
		for i := range o.fields {
			f := &o.fields[i]
			belongs := f.words("for")
			if len(belongs) > 0 && !slices.Contains(belongs, v) {
				then[f.name] = false
				continue
			}
			if len(belongs) > 0 && f.tag.Get("required") != "" {
				required = append(required, f.name)
			}
			if d, ok := per(f)[v]; ok {
				then[f.name] = map[string]any{"default": literal(f.typ, d)}
			}
		}
		consequence := map[string]any{"properties": then}
		if required != nil {
			consequence["required"] = required
		}
		all = append(all, map[string]any{"if": condition, "then": consequence})
	}
	return all
}

// per returns the defaults by value of the selecting key.
func per(f *field) map[string]string {
	out := map[string]string{}
	for _, w := range f.words("per") {
		k, v, _ := strings.Cut(w, "=")
		out[k] = v
	}
	return out
}

func (m model) property(f *field) map[string]any {
	value := m.value(f)
	switch f.form {
	case list:
		l := map[string]any{"type": "array", "items": value}
		if f.tag.Get("single") != "" {
			value["type"], value["items"] = []any{value["type"], "array"}, m.value(f)
			if words, ok := value["enum"].([]string); ok { // which would hold for the list too
				delete(value, "enum")
				value["pattern"] = "^(" + strings.Join(words, "|") + ")$"
			}
			return described(f, value)
		}
		if f.tag.Get("required") != "" {
			l["minItems"] = 1
		}
		return described(f, l)
	case dictionary:
		return described(f, map[string]any{"type": "object", "additionalProperties": value})
	default:
	}
	if d, ok := f.tag.Lookup("default"); ok && f.tag.Get("required") == "" {
		value["default"] = literal(f.typ, d)
	}
	return described(f, value)
}

// described adds the field's description. A key without a value, which means its
// default, is not accepted: alternatives would make three messages of one
// mistake, and who leaves a value out has mostly forgotten it.
func described(f *field, value map[string]any) map[string]any {
	value["description"] = f.doc
	return value
}

// value is the schema of one value of the field's type.
func (m model) value(f *field) map[string]any {
	if _, ok := m[f.typ]; ok {
		return map[string]any{"$ref": "#/$defs/" + f.typ}
	}
	s := map[string]any{}
	switch f.typ {
	case "bool":
		s["type"] = "boolean"
	case "int", "float64":
		s["type"] = map[string]string{"int": "integer", "float64": "number"}[f.typ]
		if word := f.tag.Get("zero"); word != "" {
			s["type"], s["pattern"], s[saidOfPattern] = []any{"number", "string"}, "^"+word+"$", "want a number, or the word "+word
		}
		for tag, key := range map[string]string{"min": "minimum", "max": "maximum", "below": "exclusiveMaximum"} {
			if b, ok := f.tag.Lookup(tag); ok {
				s[key] = literal(f.typ, b)
			}
		}
	case "Overlay":
		s["type"] = "object" // checked once it is laid over what it changes
	case "Duration":
		return map[string]any{ // of numbers 0 alone
			"type": []any{"string", "integer"}, "pattern": durationPattern, "minimum": 0, "maximum": 0, saidOfPattern: "want a time such as 250ms, 10s or 1h30m",
		}
	case "Size":
		pattern, want := sizePattern, "want a size such as 64KiB or 16MiB, or a number of bytes"
		if word := f.tag.Get("zero"); word != "" {
			pattern, want = "^"+word+"$|"+pattern, want+", or the word "+word
		}
		return map[string]any{"type": []any{"string", "integer"}, "pattern": pattern, "minimum": 0, saidOfPattern: want}
	case "Count":
		return map[string]any{ // of text the word alone
			"type": []any{"integer", "string"}, "minimum": literal("int", f.tag.Get("min")), "maximum": literal("int", f.tag.Get("max")),
			"pattern": "^auto$", saidOfPattern: "want a whole number, or the word auto",
		}
	case "Status":
		return map[string]any{"enum": statuses(f)}
	default:
		s["type"] = "string"
		if e := f.words("enum"); len(e) > 0 {
			s["enum"] = e
		}
	}
	return s
}

// statuses lists the words of the field as text and, where they are numbers,
// as numbers.
func statuses(f *field) []any {
	var out []any
	for _, w := range f.words("enum") {
		out = append(out, w)
		if n, err := strconv.Atoi(w); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// literal is the JSON value that the text of a tag means.
func literal(typ, s string) any {
	switch typ {
	case "bool":
		return s == "true"
	case "int", "float64", "Count":
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return f
		}
	}
	return s
}
