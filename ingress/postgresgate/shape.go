package postgresgate

import (
	"bytes"

	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/limiter"
)

// maxShape bounds the normalised text of a statement, in bytes.
const maxShape = 512

// shape returns what a text has in common with others: itself without comments and
// literals. nil = the gate learns nothing.
func (s *session) shape(text []byte) *limiter.Shape {
	l := s.srv.learner
	if l == nil || !l.Learns() {
		return nil
	}
	if shown, _, whole := cutString(text); whole {
		text = shown
	}
	s.shapeBuf = normalise(s.shapeBuf[:0], text)
	return l.Shape(uint64(ingress.Fold(ingress.NewFingerprint(), s.shapeBuf)), func() string { return string(s.shapeBuf) })
}

// normalise appends the text with ? for each literal and parameter, one ? for a
// list of them, one space for any white space, and its words in lower case.
func normalise(dst, text []byte) []byte {
	l, ignored := lexer{b: text}, statement{}
	for l.i < len(text) && len(dst) < maxShape {
		switch c := text[l.i]; {
		case isSpace(c):
			l.i++
			dst = spaced(dst)
		case l.comment(&ignored):
			dst = spaced(dst)
		case c == '\'':
			l.quoted(c, false)
			dst = literal(dst)
		case c == '"':
			start := l.i
			l.quoted(c, false)
			dst = append(dst, text[start:min(l.i, start+maxFact)]...)
		case c == '$':
			l.dollar()
			for l.i < len(text) && '0' <= text[l.i] && text[l.i] <= '9' {
				l.i++
			}
			dst = literal(dst)
		case '0' <= c && c <= '9':
			for l.i < len(text) && (isLetter(text[l.i]) || '0' <= text[l.i] && text[l.i] <= '9' || text[l.i] == '.') {
				l.i++
			}
			dst = literal(dst)
		case isLetter(c):
			start := l.i
			l.name()
			if word := text[start:l.i]; word[len(word)-1] == '\'' { // E'…'
				dst = literal(dst)
			} else {
				dst = append(dst, bytes.ToLower(word[:min(len(word), maxFact)])...)
			}
		case c == ',':
			l.i++
			dst = append(bytes.TrimRight(dst, " "), c)
		default:
			l.i++
			dst = append(dst, c)
		}
	}
	return bytes.TrimRight(dst, " ;")
}

// spaced appends one space, unless there is one or nothing.
func spaced(dst []byte) []byte {
	if len(dst) == 0 || dst[len(dst)-1] == ' ' {
		return dst
	}
	return append(dst, ' ')
}

// literal appends ?, unless that is one more in a list.
func literal(dst []byte) []byte {
	if before := bytes.TrimRight(dst, " "); bytes.HasSuffix(before, []byte("?,")) {
		return before[:len(before)-1]
	}
	return append(dst, '?')
}
