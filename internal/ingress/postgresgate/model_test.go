package postgresgate_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
)

// model is a server that knows of PostgreSQL what decides who gets which answer:
// units, transactions, errors that skip to Sync, and copying. It is a pure state
// machine, so that tests can play it beside the one behind the gate.
type model struct {
	status  byte
	skip    bool // to Sync, after an error
	copies  byte // 'Q' or 'P' while rows are taken: how that began
	stmts   map[string]string
	portals map[string]string
	ran     []string // the texts that did something
}

func newModel() *model {
	return &model{status: 'I', stmts: map[string]string{}, portals: map[string]string{}}
}

// pg builds a typed message.
func pg(kind byte, body ...string) []byte {
	b := strings.Join(body, "")
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(len(b)+4)), b...)
}

func query(text string) []byte       { return pg('Q', text, "\x00") }
func parse(name, text string) []byte { return pg('P', name, "\x00", text, "\x00\x00\x00") }
func bind(name string) []byte        { return pg('B', "\x00", name, "\x00\x00\x00\x00\x00\x00\x00") }
func describe() []byte               { return pg('D', "S\x00") }
func execute() []byte                { return pg('E', "\x00\x00\x00\x00\x00") }
func closing(name string) []byte     { return pg('C', "S", name, "\x00") }
func ready(status byte) []byte       { return pg('Z', string(status)) }

var sync0, flush0, copyDone, copyFail = pg('S'), pg('H'), pg('c'), pg('f', "no\x00")

func failure(code, text string) []byte {
	return pg('E', "SERROR\x00VERROR\x00C", code, "\x00M", text, "\x00\x00")
}

// script joins messages.
func script(messages ...[]byte) []byte { return bytes.Join(messages, nil) }

// handle answers one message.
func (m *model) handle(msg []byte) []byte {
	kind, body := msg[0], string(msg[5:])
	switch {
	case m.copies != 0:
		return m.copying(kind)
	case m.skip && kind != 'S':
		return nil
	}
	switch kind {
	case 'S':
		m.skip = false
		return ready(m.status)
	case 'Q', 'F':
		text := strings.TrimSuffix(body, "\x00")
		out, _ := m.run(text)
		if m.copies != 0 {
			m.copies = 'Q'
			return out
		}
		return append(out, ready(m.status)...)
	case 'P':
		parts := strings.SplitN(body, "\x00", 3)
		if strings.HasPrefix(parts[1], "bad") || parts[1] == "admitd_refused" {
			return m.fail("42601", parts[1])
		}
		m.stmts[parts[0]] = parts[1]
		return pg('1')
	case 'D':
		return pg('n')
	case 'C':
		delete(m.stmts, strings.TrimSuffix(body[1:], "\x00"))
		return pg('3')
	case 'B':
		parts := strings.SplitN(body, "\x00", 3)
		text, ok := m.stmts[parts[1]]
		if !ok {
			return m.fail("26000", parts[1])
		}
		m.portals[parts[0]] = text
		return pg('2')
	case 'E':
		text, ok := m.portals[strings.SplitN(body, "\x00", 2)[0]]
		if !ok {
			return m.fail("34000", "portal")
		}
		delete(m.portals, "") // has run to its end
		out, ok := m.run(text)
		m.skip = !ok
		if m.copies != 0 {
			m.copies = 'P'
		}
		return out
	}
	return nil
}

// fail is an error of the extended protocol.
func (m *model) fail(code, text string) []byte {
	m.skip = true
	if m.status == 'T' {
		m.status = 'E'
	}
	return failure(code, text)
}

// copying answers a message while rows are taken.
func (m *model) copying(kind byte) []byte {
	how := m.copies
	var out []byte
	switch kind {
	case 'c':
		out = pg('C', "COPY\x00")
	case 'f':
		out = failure("57014", "COPY failed")
		if m.status == 'T' {
			m.status = 'E'
		}
		m.skip = how == 'P'
	default:
		return nil
	}
	m.copies = 0
	if how == 'Q' {
		out = append(out, ready(m.status)...)
	}
	return out
}

// run runs the statements of a text; ok is false when one failed.
func (m *model) run(text string) (out []byte, ok bool) {
	if strings.TrimSpace(text) == "" {
		return pg('I'), true
	}
	for stmt := range strings.SplitSeq(text, ";") {
		word, _, _ := strings.Cut(strings.TrimSpace(stmt), " ")
		if m.status == 'E' && word != "rollback" && word != "commit" {
			return append(out, failure("25P02", stmt)...), false
		}
		switch word {
		case "begin":
			m.status = 'T'
		case "commit", "rollback":
			if strings.HasSuffix(stmt, "chain") && m.status == 'I' {
				return append(out, failure("25P01", stmt)...), false
			}
			if !strings.HasSuffix(stmt, "chain") {
				m.status = 'I'
			} else {
				m.status = 'T'
			}
		case "fail":
			m.ran = append(m.ran, stmt)
			if m.status == 'T' {
				m.status = 'E'
			}
			return append(out, failure("22012", stmt)...), false
		case "copy":
			m.ran = append(m.ran, stmt)
			m.copies = 'Q'
			return append(out, pg('G', "\x00\x00\x00")...), true
		case "set":
		default:
			m.ran = append(m.ran, stmt)
			out = append(out, pg('D', "\x00\x01", stmt)...)
		}
		out = append(out, pg('C', stmt, "\x00")...)
	}
	return out, true
}

// serve plays the model to its end, after a login without a password.
func (m *model) serve(c net.Conn, settings ...[]byte) {
	defer c.Close()
	if _, err := readStartup(c); err != nil {
		return
	}
	greeting := append(pg('R', "\x00\x00\x00\x00"), bytes.Join(settings, nil)...)
	if _, err := c.Write(script(greeting, pg('K', "\x00\x00\x00\x07secr"), ready('I'))); err != nil {
		return
	}
	for {
		msg, err := readMessage(c)
		if err != nil || msg[0] == 'X' {
			return
		}
		if out := m.handle(msg); out != nil {
			if _, err := c.Write(out); err != nil {
				return
			}
		}
	}
}

// readMessage reads a typed message.
func readMessage(c io.Reader) ([]byte, error) {
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	b := append(head, make([]byte, binary.BigEndian.Uint32(head[1:])-4)...)
	_, err := io.ReadFull(c, b[5:])
	return b, err
}

// readStartup reads a message without a type.
// Tests look at what they read only now and then.
//
//nolint:unparam // as above
func readStartup(c io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, err
	}
	b := append(head, make([]byte, binary.BigEndian.Uint32(head)-4)...)
	_, err := io.ReadFull(c, b[4:])
	return b, err
}

// startupMessage builds a message without a type.
func startupMessage(code uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(binary.BigEndian.AppendUint32(b, code), body...)
}

// hello is how a client begins.
func hello(parameters ...string) []byte {
	return startupMessage(3<<16, strings.Join(append([]string{"user", "app"}, parameters...), "\x00")+"\x00\x00")
}

// setting is a ParameterStatus.
func setting(name, value string) []byte { return pg('S', name, "\x00", value, "\x00") }
