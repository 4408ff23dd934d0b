package pulsarwire

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// Command is a command, split from its envelope.
type Command struct {
	Type Type
	Body []byte // aliases the parsed bytes; nil when the envelope has no body
}

// ParseCommand splits the envelope of a command. Fields may come in any order,
// as a broker accepts them, and unknown ones are ignored. A type or a body that
// comes twice is refused: peers could read it differently, and no encoder does it.
func ParseCommand(b []byte) (Command, error) {
	var c Command
	f, late := fields{rest: b}, false
	for f.next() {
		switch {
		case f.num == 1 && (f.kind != protowire.VarintType || c.Type != 0):
			return Command{}, fmt.Errorf("%w: command type given twice", ErrMalformed)
		case f.num == 1:
			if c.Type = Type(int32(f.value)); c.Type <= 1 {
				return Command{}, fmt.Errorf("%w: command type %d", ErrMalformed, c.Type)
			}
		case c.Type == 0:
			late = true
		case f.num == protowire.Number(c.Type) && f.kind == protowire.BytesType:
			if c.Body != nil {
				return Command{}, fmt.Errorf("%w: body of command %d given twice", ErrMalformed, c.Type)
			}
			c.Body = f.bytes
		}
	}
	if f.bad || c.Type == 0 {
		return Command{}, fmt.Errorf("%w: command envelope", ErrMalformed)
	}
	if late {
		return findBody(c, b)
	}
	return c, nil
}

// findBody looks for the body of a command whose type did not come first.
func findBody(c Command, b []byte) (Command, error) {
	c.Body = nil
	f := fields{rest: b}
	for f.next() {
		if f.num != protowire.Number(c.Type) || f.kind != protowire.BytesType {
			continue
		}
		if c.Body != nil {
			return Command{}, fmt.Errorf("%w: body of command %d given twice", ErrMalformed, c.Type)
		}
		c.Body = f.bytes
	}
	return c, f.err("command envelope")
}

// PeekType returns the type of the command that begins with b, of which some
// bytes may not have arrived yet. It sees only a type that comes first, which is
// where every encoder puts it; ok is false for anything else.
func PeekType(b []byte) (t Type, ok bool) {
	if len(b) < 2 || b[0] != 1<<3 {
		return 0, false
	}
	if b[1] < 0x80 {
		return Type(b[1]), true
	}
	v, n := protowire.ConsumeVarint(b[1:])
	return Type(int32(v)), n > 0
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

// varint reports whether the present field is number num and a varint.
func (f *fields) varint(num protowire.Number) bool {
	return f.num == num && f.kind == protowire.VarintType
}

// err returns [ErrMalformed] when the message was not a sequence of fields.
func (f *fields) err(what string) error {
	if f.bad {
		return fmt.Errorf("%w: %s", ErrMalformed, what)
	}
	return nil
}

// appendCommand appends the envelope of a command and its body.
func appendCommand(dst []byte, t Type, body []byte) []byte {
	dst = appendUint(dst, 1, uint64(t))
	dst = protowire.AppendTag(dst, protowire.Number(t), protowire.BytesType)
	return protowire.AppendBytes(dst, body)
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
