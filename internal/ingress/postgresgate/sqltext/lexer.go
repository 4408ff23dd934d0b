package sqltext

import "bytes"

// lexer moves over SQL.
type lexer struct {
	b []byte
	i int
}

// word returns the first word of the next statement, nil at the end.
func (l *lexer) word(s *Statement) []byte {
	for l.i < len(l.b) {
		c := l.b[l.i]
		switch {
		case isSpace(c) || c == ';' || c == '(':
			l.i++
		case l.comment(s):
		default:
			start := l.i
			for l.i < len(l.b) && isLetter(l.b[l.i]) {
				l.i++
			}
			if l.i == start {
				l.i++ // no word: the statement is of no known kind
			}
			return l.b[start:l.i]
		}
	}
	return nil
}

// peek returns the next word without moving.
func (l *lexer) peek() []byte {
	i := l.i
	for i < len(l.b) && isSpace(l.b[i]) {
		i++
	}
	start := i
	for i < len(l.b) && isLetter(l.b[i]) {
		i++
	}
	return l.b[start:i]
}

// take returns the next word and moves behind it.
func (l *lexer) take() []byte {
	for l.i < len(l.b) && isSpace(l.b[l.i]) {
		l.i++
	}
	w := l.peek()
	l.i += len(w)
	return w
}

// unlocks reports whether what comes is pg_advisory_unlock_all() and no more. It
// gives back like a ROLLBACK; pools of drivers reset their connections with it.
func (l *lexer) unlocks() bool {
	call, _, _ := bytes.Cut(l.b[l.i:], []byte(";"))
	name, arguments, _ := bytes.Cut(call, []byte("("))
	return equalFold(bytes.TrimSpace(name), "pg_advisory_unlock_all") && string(bytes.TrimSpace(arguments)) == ")"
}

// advisory returns what a SELECT does with advisory locks of the session, if it does
// no more than call one function that does.
func (l *lexer) advisory() Lock {
	next := *l
	name := next.take()
	if equalFold(name, "pg_catalog") && next.i < len(next.b) && next.b[next.i] == '.' {
		next.i++
		name = next.take()
	}
	switch {
	case len(name) < len("pg_advisory_lock") || next.i >= len(next.b) || next.b[next.i] != '(':
		return LockNone
	case equalFold(name, "pg_advisory_lock"), equalFold(name, "pg_advisory_lock_shared"):
		return LockTake
	case equalFold(name, "pg_try_advisory_lock"), equalFold(name, "pg_try_advisory_lock_shared"):
		return LockTry
	case equalFold(name, "pg_advisory_unlock"), equalFold(name, "pg_advisory_unlock_shared"):
		return LockFree
	case equalFold(name, "pg_advisory_unlock_all"):
		return LockFreeAll
	}
	return LockNone
}

// toSavepoint reports whether a ROLLBACK goes back to a savepoint only.
func (l *lexer) toSavepoint() bool {
	next := *l
	word := next.take()
	if equalFold(word, "WORK") || equalFold(word, "TRANSACTION") {
		word = next.take()
	}
	return equalFold(word, "TO")
}

// skip moves behind the end of the statement.
func (l *lexer) skip(s *Statement) {
	for l.i < len(l.b) {
		switch c := l.b[l.i]; {
		case c == ';':
			l.i++
			return
		case l.comment(s):
		case c == '\'' || c == '"':
			l.quoted(c, false)
		case c == '$':
			l.dollar()
		case isLetter(c):
			l.name()
		default:
			l.i++
		}
	}
}

// name moves behind a name, or behind an E'…' string. A dollar sign inside a
// name begins no quote.
func (l *lexer) name() {
	start := l.i
	for l.i < len(l.b) && (isLetter(l.b[l.i]) || l.b[l.i] == '$' || '0' <= l.b[l.i] && l.b[l.i] <= '9') {
		l.i++
	}
	if l.i == start+1 && (l.b[start] == 'E' || l.b[start] == 'e') && l.i < len(l.b) && l.b[l.i] == '\'' {
		l.quoted('\'', true)
	}
}

// comment moves behind a comment, if there is one, and keeps the text of one
// between /* and */.
func (l *lexer) comment(s *Statement) bool {
	rest := l.b[l.i:]
	switch {
	case bytes.HasPrefix(rest, []byte("--")):
		end := bytes.IndexAny(rest, "\n\r")
		if end < 0 {
			end = len(rest) - 1
		}
		l.i += end + 1
	case bytes.HasPrefix(rest, []byte("/*")):
		depth, i := 1, 2
		for i < len(rest) && depth > 0 {
			switch {
			case bytes.HasPrefix(rest[i:], []byte("/*")):
				depth++
				i += 2
			case bytes.HasPrefix(rest[i:], []byte("*/")):
				depth--
				i += 2
			default:
				i++
			}
		}
		if depth == 0 {
			s.tags = rest[2 : i-2]
		}
		l.i += i
	default:
		return false
	}
	return true
}

// quoted moves behind a quoted string or name. Only E'…' strings escape with a
// backslash. Where the server is told to take it so in all strings
// (standard_conforming_strings off), a string can be taken for shorter than it
// is: then its rest is seen as statements, and nothing is hidden.
func (l *lexer) quoted(q byte, escapes bool) {
	for l.i++; l.i < len(l.b); l.i++ {
		switch l.b[l.i] {
		case '\\':
			if escapes {
				l.i++
			}
		case q:
			if l.i+1 < len(l.b) && l.b[l.i+1] == q {
				l.i++
				continue
			}
			l.i++
			return
		}
	}
	l.i = min(l.i, len(l.b))
}

// dollar moves behind a dollar-quoted string, or behind the sign alone.
func (l *lexer) dollar() {
	rest := l.b[l.i:]
	end := 1
	for end < len(rest) && (isLetter(rest[end]) || '0' <= rest[end] && rest[end] <= '9' && end > 1) {
		end++
	}
	if end >= len(rest) || rest[end] != '$' {
		l.i++
		return
	}
	tag := rest[:end+1]
	if n := bytes.Index(rest[end+1:], tag); n >= 0 {
		l.i += end + 1 + n + len(tag)
		return
	}
	l.i = len(l.b)
}

// isSpace reports whether c is white space in SQL.
func isSpace(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

// isLetter reports whether c may stand in a word.
func isLetter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_' || c >= 0x80
}

// equalFold reports whether two ASCII words are equal but for case.
func equalFold(a []byte, b string) bool {
	return len(a) == len(b) && bytes.EqualFold(a, []byte(b))
}
