package postgresgate

import (
	"bytes"

	"github.com/admitd/admitd/limiter"
)

// operation is what a statement does, as far as admission is concerned.
type operation uint8

// The operations.
const (
	opOther operation = iota
	opSelect
	opInsert
	opUpdate
	opDelete
	opDDL
	opCopy
	opBegin // of a transaction
	opFree  // ends a transaction, or only changes the session: never refused
)

// String returns the operation as configuration and metrics spell it.
func (o operation) String() string {
	return [...]string{"other", "select", "insert", "update", "delete", "ddl", "copy", "begin", "control"}[o]
}

// Operations returns the operations that a configuration may name.
func Operations() []string {
	names := make([]string, 0, opFree+1)
	for o := opOther; o <= opFree; o++ {
		names = append(names, o.String())
	}
	return names
}

// operations are the first words of statements; the rest is opOther.
var operations = map[string]operation{ //nolint:gochecknoglobals // a constant table
	"SELECT": opSelect, "TABLE": opSelect, "VALUES": opSelect, "FETCH": opSelect, "WITH": opSelect,
	"INSERT": opInsert, "MERGE": opUpdate, "UPDATE": opUpdate, "DELETE": opDelete, "COPY": opCopy,
	"CREATE": opDDL, "ALTER": opDDL, "DROP": opDDL, "TRUNCATE": opDDL, "GRANT": opDDL, "REVOKE": opDDL,
	"COMMENT": opDDL, "REINDEX": opDDL, "REFRESH": opDDL,
	"BEGIN": opBegin, "START": opBegin,
	"COMMIT": opFree, "END": opFree, "ROLLBACK": opFree, "ABORT": opFree, "DEALLOCATE": opFree, "DISCARD": opFree,
	"SET": opFree, "RESET": opFree, "SHOW": opFree, "SAVEPOINT": opFree, "RELEASE": opFree, "CLOSE": opFree,
	"LISTEN": opFree, "UNLISTEN": opFree,
}

// statement is what a text of one or more statements says to the gate.
type statement struct {
	op   operation // of the dearest: of the first that works, else of what there is
	n    int       // statements, at least 1 unless the text is empty
	tags []byte    // the last comment, where sqlcommenter writes its tags; points into the text
	set  []byte    // the last SET statement, behind the word; points into the text
	// forgets: names may stand for other prepared statements from now on.
	// resets: settings are what they were at first.
	forgets, resets bool
	shape           *limiter.Shape // nil = nothing is learned of it
}

// parseStatement reads a text, of which the end may be missing. It knows what
// can hold a semicolon: quotes, dollar quotes and comments. It allocates
// nothing.
func parseStatement(text []byte) (s statement) {
	s.op = opFree
	l := lexer{b: text}
	for {
		word := l.word(&s)
		if word == nil {
			break
		}
		op := classify(word, &l)
		switch {
		case equalFold(word, "SET"):
			s.set = l.b[l.i:]
		case equalFold(word, "RESET"):
			s.resets = true
		case equalFold(word, "DEALLOCATE"):
			s.forgets = true
		case equalFold(word, "DISCARD"):
			s.resets, s.forgets = true, true
		}
		if s.n == 0 || rank(op) > rank(s.op) {
			s.op = op
		}
		s.n++
		l.skip(&s)
	}
	if s.n == 0 {
		s.op = opOther // empty: the server answers it at once
	}
	return s
}

// parseShown is parseStatement for a text that a message holds, or begins to: of
// one whose end is not shown nobody knows that it does no work.
func parseShown(b []byte) statement {
	text, _, whole := cutString(b)
	if !whole {
		text = b
	}
	s := parseStatement(text)
	if !whole && (s.n == 0 || rank(s.op) < rank(opOther)) {
		s.op, s.n = opOther, max(s.n, 1)
	}
	return s
}

// rank orders operations by what they ask of the server.
func rank(o operation) int {
	switch o {
	case opFree:
		return 0
	case opBegin:
		return 1
	default:
		return 2
	}
}

// classify returns the operation that begins with the word.
func classify(word []byte, l *lexer) operation {
	var upper [16]byte
	if len(word) > len(upper) {
		return opOther
	}
	u := upper[:len(word)]
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		u[i] = c
	}
	if string(u) == "PREPARE" && equalFold(l.peek(), "TRANSACTION") {
		return opFree
	}
	if string(u) == "SELECT" && l.unlocks() {
		return opFree
	}
	return operations[string(u)]
}

// lexer moves over SQL.
type lexer struct {
	b []byte
	i int
}

// word returns the first word of the next statement, nil at the end.
func (l *lexer) word(s *statement) []byte {
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

// unlocks reports whether what comes is pg_advisory_unlock_all() and no more. It
// gives back like a ROLLBACK; pools of drivers reset their connections with it.
func (l *lexer) unlocks() bool {
	call, _, _ := bytes.Cut(l.b[l.i:], []byte(";"))
	name, arguments, _ := bytes.Cut(call, []byte("("))
	return equalFold(bytes.TrimSpace(name), "pg_advisory_unlock_all") && string(bytes.TrimSpace(arguments)) == ")"
}

// skip moves behind the end of the statement.
func (l *lexer) skip(s *statement) {
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
func (l *lexer) comment(s *statement) bool {
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

// tag returns the value of a tag in a comment of the form key='value',key='value'
// (sqlcommenter), as it is written; "" where there is none.
func tag(comment []byte, key string) []byte {
	for len(comment) > 0 {
		var pair []byte
		pair, comment, _ = bytes.Cut(comment, []byte(","))
		name, value, ok := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
		if ok && string(bytes.TrimSpace(name)) == key {
			return bytes.Trim(bytes.TrimSpace(value), "'")
		}
	}
	return nil
}
