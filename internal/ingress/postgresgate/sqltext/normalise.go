package sqltext

import "bytes"

// maxShape bounds the normalised text of a statement, in bytes.
const maxShape = 512

// Normalise appends the text with ? for each literal and parameter, one ? for a
// list of them, one space for any white space, and its words in lower case.
func Normalise(dst, text []byte) []byte {
	l, ignored := lexer{b: text}, Statement{}
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
			dst = append(dst, text[start:min(l.i, start+maxKept)]...)
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
				dst = append(dst, bytes.ToLower(word[:min(len(word), maxKept)])...)
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
