package pulsarwire

import (
	"fmt"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a body: its number, and where its value is kept. One of
// the places is set.
type field struct {
	num    protowire.Number
	number *uint64
	text   *string
	count  *int   // an int32
	code   *int32 // an enumeration
	flag   *bool
	always bool // written also when it is zero
}

// The kinds of fields. A number is always written, an option, like the others,
// unless it is zero.
func number(num protowire.Number, v *uint64) field {
	return field{num: num, number: v, always: true}
}
func option(num protowire.Number, v *uint64) field { return field{num: num, number: v} }
func text(num protowire.Number, v *string) field   { return field{num: num, text: v} }
func count(num protowire.Number, v *int) field     { return field{num: num, count: v} }
func code(num protowire.Number, v *int32) field    { return field{num: num, code: v} }
func flag(num protowire.Number, v *bool) field     { return field{num: num, flag: v} }

// written has a field written also when it is zero.
func written(f field) field {
	f.always = true
	return f
}

// read fills in the fields of a body. Others are ignored, as are those of
// another wire type than expected. what names the body in errors.
func read(body []byte, what string, table []field) error {
	f := fields{rest: body}
	for f.next() {
		for i := range table {
			if table[i].num == f.num {
				table[i].set(&f)
				break
			}
		}
	}
	return f.err(what)
}

// set takes the value of the field that f stands at.
func (d *field) set(f *fields) {
	switch {
	case f.kind == protowire.BytesType && d.text != nil:
		*d.text = string(f.bytes)
	case f.kind != protowire.VarintType:
	case d.number != nil:
		*d.number = f.value
	case d.count != nil:
		*d.count = int(int32(f.value))
	case d.code != nil:
		*d.code = int32(f.value)
	case d.flag != nil:
		*d.flag = f.value != 0
	}
}

// write appends the fields of a body in the order of the table.
func write(dst []byte, table []field) []byte {
	for i := range table {
		d := &table[i]
		if d.text != nil {
			dst = appendString(dst, d.num, *d.text)
			continue
		}
		if v := d.value(); v != 0 || d.always {
			dst = appendUint(dst, d.num, v)
		}
	}
	return dst
}

// value returns what a varint carries.
func (d *field) value() uint64 {
	switch {
	case d.number != nil:
		return *d.number
	case d.count != nil:
		return uint64(*d.count)
	case d.code != nil:
		return uint64(*d.code)
	case *d.flag:
		return 1
	default:
		return 0
	}
}

// fields walks the fields of one message.
type fields struct {
	rest  []byte
	num   protowire.Number
	kind  protowire.Type
	value uint64 // of a varint
	bytes []byte // of a length-delimited field
	raw   []byte // the whole field, tag included
	bad   bool   // the message ended in something that is not a field
}

// next reads the next field and reports whether there is one.
func (f *fields) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	num, kind, n := protowire.ConsumeTag(f.rest)
	if n < 0 {
		f.bad = true
		return false
	}
	var m int
	switch kind {
	case protowire.VarintType:
		f.value, m = protowire.ConsumeVarint(f.rest[n:])
	case protowire.BytesType:
		f.bytes, m = protowire.ConsumeBytes(f.rest[n:])
	default:
		m = protowire.ConsumeFieldValue(num, kind, f.rest[n:])
	}
	if m < 0 {
		f.bad = true
		return false
	}
	f.num, f.kind, f.raw, f.rest = num, kind, f.rest[:n+m], f.rest[n+m:]
	return true
}

// err returns [ErrMalformed] when the message was not a sequence of fields.
func (f *fields) err(what string) error {
	if f.bad {
		return fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	return nil
}

// without appends body without the fields whose numbers are given.
func without(dst, body []byte, what string, nums ...protowire.Number) ([]byte, error) {
	f := fields{rest: body}
	for f.next() {
		if !slices.Contains(nums, f.num) {
			dst = append(dst, f.raw...)
		}
	}
	return dst, f.err(what)
}

// appendUint appends a varint field.
func appendUint(dst []byte, num protowire.Number, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(dst, num, protowire.VarintType), v)
}

// appendString appends a string field, unless it is empty.
func appendString(dst []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return dst
	}
	return protowire.AppendString(protowire.AppendTag(dst, num, protowire.BytesType), s)
}
