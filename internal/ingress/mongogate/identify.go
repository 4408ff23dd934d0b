package mongogate

import (
	"bytes"
	"time"

	"github.com/admitd/admitd/internal/mongowire"
)

// facts are what a request says of itself. The slices point into the frame
// and are valid until the connection is read again.
type facts struct {
	op       mongowire.Opcode // the original one, when the frame is compressed
	name     []byte           // of the command; empty when the frame is none
	db       []byte
	coll     []byte
	readPref []byte // mode
	comment  []byte // when it is a string
	class    []byte // of a comment that is a document, its field class
	cursor   int64  // of getMore
	txn      transaction
	maxTime  time.Duration
	awaits   bool   // tailable: the reply waits for data
	stream   bool   // opens a change stream, or a cursor that waits for data
	noReply  bool   // fire and forget
	exhaust  bool   // the client takes a stream of replies
	body     []byte // the document, perhaps cut short
}

// transaction is what a command says of the one that it belongs to.
type transaction struct {
	session []byte // UUID
	number  int64
	in      bool // autocommit: false
	starts  bool
}

// key returns what identifies the transaction; ok is false outside of one.
func (t *transaction) key() (k txnKey, ok bool) {
	if !t.in || len(t.session) != len(k.session) {
		return k, false
	}
	copy(k.session[:], t.session)
	k.number = t.number
	return k, true
}

// verdict says how far identify came.
type verdict uint8

// The verdicts.
const (
	identified verdict = iota
	needMore           // facts may stand behind the bytes that are there
	opaque             // not a command: a legacy opcode
	broken             // not the protocol
)

// identify reads the facts from a frame, or from as much of it as is in b,
// which begins with the header h. It does no I/O and keeps nothing. What it
// cannot find is left empty.
func identify(h mongowire.Header, b []byte, f *facts, open *mongowire.Opener) verdict {
	*f = facts{op: h.Op}
	b = b[mongowire.HeaderLen:min(len(b), h.Length)]
	op, whole, cut := h.Op, len(b) == h.Length-mongowire.HeaderLen, false
	if op == mongowire.OpCompressed {
		o := open.Open(b, whole)
		if !o.OK {
			return orBroken(o.Whole)
		}
		op, b, whole, cut = o.Op, o.Bytes, o.Whole, o.Cut
		f.op = op
	}
	if !op.Request() || op == mongowire.OpCompressed { // inside another one
		return broken
	}
	if op != mongowire.OpMsg && op != mongowire.OpQuery {
		f.noReply = op == mongowire.OpInsert || op == mongowire.OpUpdate || op == mongowire.OpDelete || op == mongowire.OpKillCursors
		return opaque
	}
	m, ok := mongowire.ParseMessage(op, b)
	f.noReply = op == mongowire.OpMsg && m.Flags&mongowire.FlagMoreToCome != 0 // they count, whatever else is to be seen
	f.exhaust = op == mongowire.OpMsg && m.Flags&mongowire.FlagExhaustAllowed != 0
	switch {
	case !ok && cut: // the command stands behind what was opened
		return identified
	case !ok:
		return orBroken(whole)
	}
	if op == mongowire.OpQuery {
		db, coll, _ := bytes.Cut(m.Namespace, []byte{'.'})
		f.db = db
		if string(coll) != "$cmd" {
			f.coll, f.name = coll, []byte("find")
			return identified
		}
	}
	f.body = m.Body
	return f.command(m.Body, whole)
}

// orBroken returns broken for a frame that is all there.
func orBroken(whole bool) verdict {
	if whole {
		return broken
	}
	return needMore
}

// command reads the facts from the command's document.
func (f *facts) command(doc []byte, whole bool) verdict {
	s := mongowire.Scan(doc)
	var e mongowire.Element
	if !s.Next(&e) {
		if s.Empty() { // the server knows what to say to no command
			return identified
		}
		return orBroken(whole || !s.Short)
	}
	f.name = e.Key
	if string(e.Key) == "query" || string(e.Key) == "$query" {
		if inner, body := e.Document(), e.Value; inner.Next(&e) { // OP_QUERY may wrap the command
			f.name, f.body = e.Key, body
			f.coll = e.Text()
			f.fields(&inner)
			return identified
		}
	}
	if e.Type == mongowire.TypeInt64 {
		f.cursor, _ = e.Number()
	}
	f.coll = e.Text()
	f.fields(&s)
	if s.Short && !whole {
		return needMore
	}
	return identified
}

// fields reads the fields behind the command's name.
func (f *facts) fields(s *mongowire.Scanner) {
	var e mongowire.Element
	for s.Next(&e) {
		switch string(e.Key) {
		case "$db":
			f.db = e.Text()
		case "collection":
			if f.coll == nil {
				f.coll = e.Text()
			}
		case "lsid":
			f.txn.session = sessionID(e)
		case "txnNumber":
			f.txn.number, _ = e.Number()
		case "autocommit":
			f.txn.in = !e.Truthy()
		case "startTransaction":
			f.txn.starts = e.Truthy()
		case "maxTimeMS":
			if ms, ok := e.Number(); ok && ms > 0 && ms < 1<<40 {
				f.maxTime = time.Duration(ms) * time.Millisecond
			}
		case "pipeline":
			f.stream = changeStream(e.Document())
		case "tailable", "awaitData", "maxAwaitTimeMS", "topologyVersion":
			f.stream = f.stream || string(e.Key) == "awaitData" && e.Truthy() // only with tailable
			f.awaits = f.awaits || e.Type == mongowire.TypeDocument || e.Truthy()
		case "$readPreference":
			if mode, ok := mongowire.Lookup(e.Value, "mode"); ok && e.Type == mongowire.TypeDocument {
				f.readPref = mode.Text()
			}
		case "comment":
			f.comment = e.Text()
			if class, ok := mongowire.LookupIn(e, "class"); ok {
				f.class = class.Text()
			}
		}
	}
}

// sessionID returns the UUID of a session, nil when e holds none.
func sessionID(e mongowire.Element) []byte {
	id, ok := mongowire.LookupIn(e, "id")
	if !ok || id.Type != mongowire.TypeBinary || len(id.Value) != 21 {
		return nil
	}
	return id.Value[5:]
}

// changeStream reports whether a pipeline begins with $changeStream.
func changeStream(pipeline mongowire.Scanner) bool {
	var stage, e mongowire.Element
	if !pipeline.Next(&stage) {
		return false
	}
	inner := stage.Document()
	return inner.Next(&e) && string(e.Key) == "$changeStream"
}
