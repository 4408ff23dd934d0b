package sqltext

import "bytes"

// Catalogue reports whether a text is one statement that only asks the catalogues of
// the server, or what the server and the session are: what drivers ask by themselves
// when a session begins. It does not follow every form of SQL: what it does not
// understand is no such statement. It allocates nothing.
func Catalogue(text []byte) bool {
	var s Statement
	l := lexer{b: text}
	var cte []byte
	word := l.word(&s)
	switch {
	case equalFold(word, "WITH"):
		if cte = l.take(); equalFold(cte, "RECURSIVE") {
			cte = l.take()
		}
	case !equalFold(word, "SELECT"):
		return false
	}
	from, self, plain := false, false, true
	for alias := false; ; {
		word, call, end := l.next(&s)
		switch {
		case end, word == nil && l.word(&s) == nil: // nothing may follow a semicolon
			return from || self && plain
		case word == nil:
			return false
		case equalFold(word, "FROM") || equalFold(word, "JOIN"):
			from = true
			if !l.catalogue(cte) {
				return false
			}
		case equalFold(word, "INTO"), equalFold(word, "INSERT"), equalFold(word, "UPDATE"), equalFold(word, "DELETE"), equalFold(word, "MERGE"),
			call && working(word):
			return false
		}
		self = self || asksSelf(word)
		plain = plain && (alias || equalFold(word, "AS") || asksSelf(word))
		alias = equalFold(word, "AS")
	}
}

// next returns the next word of the statement and moves behind it; call says that an
// opening parenthesis follows. nil = a semicolon.
func (l *lexer) next(s *Statement) (word []byte, call, end bool) {
	for l.i < len(l.b) {
		switch c := l.b[l.i]; {
		case c == ';':
			l.i++
			return nil, false, false
		case l.comment(s):
		case c == '\'' || c == '"':
			l.quoted(c, false)
		case c == '$':
			l.dollar()
		case isLetter(c):
			start := l.i
			l.name()
			return l.b[start:l.i], l.i < len(l.b) && l.b[l.i] == '(', false
		default:
			l.i++
		}
	}
	return nil, false, true
}

// catalogue reports whether what follows FROM or JOIN is a subquery, a relation of a
// catalogue, or the named one, without moving.
func (l *lexer) catalogue(cte []byte) bool {
	next := *l
	name := next.take()
	if equalFold(name, "LATERAL") || equalFold(name, "ONLY") {
		name = next.take()
	}
	switch {
	case len(name) == 0:
		return next.i < len(next.b) && next.b[next.i] == '('
	case len(cte) > 0 && bytes.Equal(name, cte):
		return true
	case equalFold(name, "information_schema"):
		return next.i < len(next.b) && next.b[next.i] == '.'
	}
	return len(name) > 3 && equalFold(name[:3], "pg_") && !working(name) || equalFold(name, "unnest")
}

// working reports whether a function does more than to look: it waits, locks, or
// makes as many rows as it is told.
func working(name []byte) bool {
	for _, begin := range []string{"pg_sleep", "pg_advisory", "pg_try_advisory", "pg_terminate", "pg_cancel", "pg_read", "pg_logical", "generate_series", "repeat", "dblink", "lo_", "query_to"} {
		if len(name) >= len(begin) && equalFold(name[:len(begin)], begin) {
			return true
		}
	}
	return false
}

// asksSelf reports whether a word may stand in a statement without FROM.
func asksSelf(word []byte) bool {
	for _, known := range []string{
		"pg_catalog", "version", "current_schema", "current_schemas", "current_database", "current_catalog", "current_setting", "current_user",
		"session_user", "user", "pg_backend_pid", "pg_is_in_recovery", "inet_server_addr", "inet_server_port", "true", "false", "int", "text",
	} {
		if equalFold(word, known) {
			return true
		}
	}
	return false
}
