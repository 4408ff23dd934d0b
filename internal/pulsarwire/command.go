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

// appendCommand appends the envelope of a command and its body.
func appendCommand(dst []byte, t Type, body []byte) []byte {
	dst = appendUint(dst, 1, uint64(t))
	dst = protowire.AppendTag(dst, protowire.Number(t), protowire.BytesType)
	return protowire.AppendBytes(dst, body)
}
