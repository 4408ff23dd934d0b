package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

const preface = `# Configuration reference

<!-- Written by go generate ./internal/config from the source of package config. Do not edit. -->

The configuration is one YAML document of at most 1 MiB. Unknown keys are errors. Durations are written as ` + "`250ms`" + `,
sizes as ` + "`16MiB`" + `, rates as numbers per second. A key without a value means its default. Anchors, aliases and ` + "`<<`" + `
work as usual.

Every key can be set from the environment: ` + "`ADMITD_ADMIN__LISTEN=127.0.0.1:9462`" + `, two underscores between levels,
an index for an element of a list (` + "`ADMITD_INGRESSES__0__LISTEN`" + `; the first index past the end appends), commas between the words
of a list. Case and single underscores in names do not matter. Variables without two underscores are not looked at.

` + "`admitd check FILE`" + ` reports every problem at once as ` + "`FILE:LINE: key.path: what is wrong (value)`" + `. The JSON Schema
(` + "`admitd schema`" + `, internal/config/schema.json) gives editors the same keys.

A reload takes every key in place and interrupts nothing; a key holds for the next request, or for what its row says.

A smallest configuration:

` + "```yaml" + `
ingresses:
  - name: orders
    listen: 127.0.0.1:8462
    backend: http://127.0.0.1:9000
` + "```" + `
`

// place is where an object stands in the document.
type place struct{ path, object string }

// reference renders the model as Markdown: one section per place, in the order
// of a document.
func (m model) reference() []byte {
	var b bytes.Buffer
	b.WriteString(preface)
	shown := map[string]string{}
	for _, p := range m.places("", "Config") {
		o := m[p.object]
		title := p.path
		if title == "" {
			title = "Top level"
		} else {
			title = "`" + title + "`"
		}
		if first, ok := shown[p.object]; ok {
			fmt.Fprintf(&b, "\n## %s\n\nThe keys of [`%s`](#%s).\n", title, first, anchor(first))
			continue
		}
		shown[p.object] = p.path
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n", title, o.doc)
		b.WriteString("| key | type | default | meaning |\n|---|---|---|---|\n")
		for i := range o.fields {
			m.row(&b, &o.fields[i])
		}
	}
	return b.Bytes()
}

// places lists the objects below path; an object that was met before is named
// and not entered again.
func (m model) places(path, name string) []place {
	seen := map[string]bool{}
	var walk func(path, name string) []place
	walk = func(path, name string) []place {
		out := []place{{path, name}}
		if seen[name] {
			return out
		}
		seen[name] = true
		for i := range m[name].fields {
			f := &m[name].fields[i]
			if m[f.typ] == nil {
				continue
			}
			below := strings.TrimPrefix(path+"."+f.name, ".")
			if f.form == list {
				below += "[]"
			}
			out = append(out, walk(below, f.typ)...)
		}
		return out
	}
	return walk(path, name)
}

// anchor is the fragment under which a renderer files a heading.
func anchor(title string) string {
	return strings.ToLower(strings.Map(func(r rune) rune {
		if strings.ContainsRune(".[]`", r) {
			return -1
		}
		return r
	}, title))
}

// reloads are what a reload does with keys that do not hold for the next request, by
// the word of the tag.
var reloads = map[string]string{ //nolint:gochecknoglobals // a constant table
	"connections": "for new connections",
	"wire":        "HTTP for new requests, others for new connections",
	"backend":     "HTTP for new requests, others for new connections; open ones to another backend end once nothing is in progress",
	"ingress":     "the ingress is drained and another one begins",
	"restart":     "none, it takes a restart",
}

func (m model) row(b *bytes.Buffer, f *field) {
	doc := f.doc
	if belongs := f.words("for"); len(belongs) > 0 {
		doc += " Only " + strings.Join(belongs, ", ") + "."
	}
	if when := f.tag.Get("reload"); when != "" {
		doc += " Reload: " + reloads[when] + "."
	}
	fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", f.name, m.typeText(f), m.defaultText(f), strings.ReplaceAll(doc, "|", `\|`))
}

// typeText says what may be written, with bounds.
func (m model) typeText(f *field) string {
	name := map[string]string{
		"string": "text", "bool": "true, false", "int": "integer", "float64": "number", "Duration": "duration",
		"Size": "size", "Prefix": "CIDR or address", "Secret": "text, secret", "Status": "status", "Count": "auto or integer", "Overlay": "mapping of some of its keys",
	}[f.typ]
	if o := m[f.typ]; o != nil {
		name = "mapping"
		if w := o.word(); w != nil {
			name = w.tag.Get("word") + " or mapping"
		}
	}
	if f.tag.Get("word") != "" {
		name = "in place of the mapping"
	}
	if e := f.words("enum"); len(e) > 0 {
		name = strings.Join(e, ", ")
	}
	name += bounds(f)
	if word := f.tag.Get("zero"); word != "" {
		name += ", or " + word
	}
	switch {
	case f.form == list && f.tag.Get("single") != "":
		return "list of " + name + ", or one"
	case f.form == list:
		return "list of " + name + "s"
	case f.form == dictionary:
		return "mapping to " + name
	default:
		return name
	}
}

func bounds(f *field) string {
	low, hasLow := f.tag.Lookup("min")
	high, hasHigh := f.tag.Lookup("max")
	below, hasBelow := f.tag.Lookup("below")
	switch {
	case hasLow && hasBelow:
		return fmt.Sprintf(", %s to below %s", low, below)
	case hasLow && hasHigh:
		return fmt.Sprintf(", %s to %s", low, high)
	default:
		return ""
	}
}

func (m model) defaultText(f *field) string {
	if f.tag.Get("required") != "" {
		return "required"
	}
	d, ok := f.tag.Lookup("default")
	switch {
	case ok && d == "":
		return "empty"
	case ok:
		words := []string{"`" + d + "`"}
		special := per(f)
		for _, k := range slices.Sorted(maps.Keys(special)) {
			words = append(words, fmt.Sprintf("%s `%s`", k, special[k]))
		}
		return strings.Join(words, ", ")
	case f.form != one:
		return "empty"
	default:
		return "–"
	}
}
