package sqltext

import (
	"bytes"
	"strings"
)

// Operation is what a statement does, as far as admission is concerned.
type Operation uint8

// The operations.
const (
	OpOther Operation = iota
	OpSelect
	OpInsert
	OpUpdate
	OpDelete
	OpDDL
	OpCopy
	OpBegin // of a transaction
	OpFree  // ends a transaction, or only changes the session: never refused
)

// String returns the operation as configuration and metrics spell it.
func (o Operation) String() string {
	return [...]string{"other", "select", "insert", "update", "delete", "ddl", "copy", "begin", "control"}[o]
}

// Operations returns the operations that a configuration may name.
func Operations() []string {
	names := make([]string, 0, OpFree+1)
	for o := OpOther; o <= OpFree; o++ {
		names = append(names, o.String())
	}
	return names
}

// operations are the first words of statements; the rest is OpOther.
var operations = map[string]Operation{ //nolint:gochecknoglobals // a constant table
	"SELECT": OpSelect, "TABLE": OpSelect, "VALUES": OpSelect, "FETCH": OpSelect, "WITH": OpSelect,
	"INSERT": OpInsert, "MERGE": OpUpdate, "UPDATE": OpUpdate, "DELETE": OpDelete, "COPY": OpCopy,
	"CREATE": OpDDL, "ALTER": OpDDL, "DROP": OpDDL, "TRUNCATE": OpDDL, "GRANT": OpDDL, "REVOKE": OpDDL,
	"COMMENT": OpDDL, "REINDEX": OpDDL, "REFRESH": OpDDL,
	"BEGIN": OpBegin, "START": OpBegin,
	"COMMIT": OpFree, "END": OpFree, "ROLLBACK": OpFree, "ABORT": OpFree, "DEALLOCATE": OpFree, "DISCARD": OpFree,
	"SET": OpFree, "RESET": OpFree, "SHOW": OpFree, "SAVEPOINT": OpFree, "RELEASE": OpFree, "CLOSE": OpFree,
	"LISTEN": OpFree, "UNLISTEN": OpFree,
}

// Statement is what a text of one or more statements says to the gate.
type Statement struct {
	Op   Operation // of the dearest: of the first that works, else of what there is
	N    int       // statements, at least 1 unless the text is empty
	tags []byte    // the last comment, where sqlcommenter writes its tags; points into the text
	set  []byte    // the last SET statement, behind the word; points into the text
	// Forgets: names may stand for other prepared statements from now on.
	// Resets: settings are what they were at first.
	Forgets, Resets bool
	// Ends: it ends a transaction. Another may begin behind it in the same text, or
	// by AND CHAIN.
	Ends bool
	// Lock is what it does with advisory locks of the session.
	Lock Lock
}

// Lock is what a statement does with advisory locks of the session.
type Lock uint8

// What statements do with advisory locks.
const (
	LockNone    Lock = iota
	LockTake         // pg_advisory_lock
	LockTry          // pg_try_advisory_lock, whose answer says whether it was taken
	LockFree         // pg_advisory_unlock
	LockFreeAll      // pg_advisory_unlock_all, DISCARD ALL
)

// Parse reads a text, of which the end may be missing. It knows what
// can hold a semicolon: quotes, dollar quotes and comments. It allocates
// nothing.
func Parse(text []byte) (s Statement) {
	s.Op = OpFree
	l := lexer{b: text}
	for {
		word := l.word(&s)
		if word == nil {
			break
		}
		op := classify(word, &l)
		lock := LockNone
		switch {
		case equalFold(word, "SELECT"):
			lock = l.advisory()
		case equalFold(word, "COMMIT"), equalFold(word, "END"), equalFold(word, "ABORT"), equalFold(word, "PREPARE") && op == OpFree:
			s.Ends = true
		case equalFold(word, "ROLLBACK"):
			s.Ends = s.Ends || !l.toSavepoint()
		case equalFold(word, "SET"):
			s.set = l.b[l.i:]
		case equalFold(word, "RESET"):
			s.Resets = true
		case equalFold(word, "DEALLOCATE"):
			s.Forgets = true
		case equalFold(word, "DISCARD"):
			s.Resets, s.Forgets = true, true
			lock = LockFreeAll
		}
		if lock != LockNone {
			s.Lock = lock
		}
		if s.N == 0 || op.Outranks(s.Op) {
			s.Op = op
		}
		s.N++
		l.skip(&s)
	}
	if s.N == 0 {
		s.Op = OpOther // empty: the server answers it at once
	}
	return s
}

// ParseShown is [Parse] for a text that a message holds, or begins to: of
// one whose end is not shown nobody knows that it does no work.
func ParseShown(b []byte) Statement {
	text, _, whole := bytes.Cut(b, []byte{0})
	s := Parse(text)
	if !whole && (s.N == 0 || OpOther.Outranks(s.Op)) {
		s.Op, s.N = OpOther, max(s.N, 1)
	}
	return s
}

// Outranks reports whether o asks more of the server than other does.
func (o Operation) Outranks(other Operation) bool { return o.rank() > other.rank() }

// rank orders operations by what they ask of the server.
func (o Operation) rank() int {
	switch o {
	case OpFree:
		return 0
	case OpBegin:
		return 1
	default:
		return 2
	}
}

// classify returns the operation that begins with the word.
func classify(word []byte, l *lexer) Operation {
	var upper [16]byte
	if len(word) > len(upper) {
		return OpOther
	}
	u := upper[:len(word)]
	for i, c := range word {
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		u[i] = c
	}
	if string(u) == "PREPARE" && equalFold(l.peek(), "TRANSACTION") {
		return OpFree
	}
	if string(u) == "SELECT" && l.unlocks() {
		return OpFree
	}
	return operations[string(u)]
}

// maxKept bounds what is kept of a text that outlives its message, in bytes, and
// what is looked at of a name or a value in one.
const maxKept = 255

// Clone returns s with copies of what pointed into the text, cut to 255 bytes.
func (s Statement) Clone() Statement {
	s.tags, s.set = clone(s.tags), clone(s.set)
	return s
}

// Clone copies the start of b.
func clone(b []byte) []byte { return append([]byte(nil), b[:min(len(b), maxKept)]...) }

// Tag returns the value of a tag in the last comment, of the form
// key='value',key='value' (sqlcommenter), as it is written; nil where there is none.
func (s *Statement) Tag(key string) []byte {
	for comment := s.tags; len(comment) > 0; {
		var pair []byte
		pair, comment, _ = bytes.Cut(comment, []byte(","))
		name, value, ok := bytes.Cut(bytes.TrimSpace(pair), []byte("="))
		if ok && string(bytes.TrimSpace(name)) == key {
			return bytes.Trim(bytes.TrimSpace(value), "'")
		}
	}
	return nil
}

// Sets returns the value that the last SET gives to a setting of the session. ok is
// false when it is another one's, or of another form, such as SET LOCAL and SET
// TRANSACTION.
func (s *Statement) Sets(setting string) (value []byte, ok bool) {
	if s.set == nil {
		return nil, false
	}
	l := lexer{b: s.set}
	name := l.take()
	if equalFold(name, "LOCAL") { // for a transaction, in which nothing waits
		return nil, false
	}
	if equalFold(name, "SESSION") {
		name = l.take()
	}
	rest := strings.TrimLeft(string(l.b[l.i:min(len(l.b), l.i+maxKept)]), " \t\r\n")
	switch {
	case !equalFold(name, setting):
		return nil, false
	case strings.HasPrefix(rest, "="):
		rest = rest[1:]
	case len(rest) > 2 && strings.EqualFold(rest[:2], "TO"):
		rest = rest[2:]
	default:
		return nil, false
	}
	rest, _, _ = strings.Cut(rest, ";")
	return []byte(strings.TrimSpace(rest)), true
}

// Begins reports whether a text begins with the word, in whatever case.
func Begins(text []byte, word string) bool {
	l := lexer{b: text}
	return equalFold(l.peek(), word)
}
