package mongogate

import (
	"bytes"
	"time"
)

// facts are what a request says of itself. The slices point into the frame
// and are valid until the connection is read again.
type facts struct {
	op         opcode // the original one, when the frame is compressed
	name       []byte // of the command; empty when the frame is none
	db         []byte
	coll       []byte
	readPref   []byte // mode
	comment    []byte // when it is a string
	class      []byte // of a comment that is a document, its field class
	lsid       []byte // UUID of the session
	cursor     int64  // of getMore
	txn        int64  // txnNumber inside a transaction
	maxTime    time.Duration
	inTxn      bool // autocommit: false
	startTxn   bool
	awaits     bool // tailable: the reply waits for data
	stream     bool // opens a change stream, or a cursor that waits for data
	noReply    bool // fire and forget
	exhaust    bool // the client takes a stream of replies
	compressed bool
	body       []byte // the document, perhaps cut short
}

// verdict says how far identify came.
type verdict uint8

// The verdicts.
const (
	identified verdict = iota
	needMore           // facts may stand behind the bytes that are there
	opaque             // not a command: a legacy or unknown opcode
	broken             // not the protocol
)

// identify reads the facts from a frame, or from as much of it as is in b,
// which begins with the header h. It does no I/O and keeps nothing. What it
// cannot find is left empty.
func identify(h header, b []byte, f *facts, open *opener) verdict {
	*f = facts{op: h.op}
	b = b[headerLen:min(len(b), h.length)]
	op, whole, cut := h.op, len(b) == h.length-headerLen, false
	if op == opCompressed {
		o := open.prefix(b, whole)
		if !o.ok {
			return orBroken(o.whole)
		}
		op, b, whole, cut = o.op, o.b, o.whole, o.cut
		f.compressed, f.op = true, op
	}
	if op != opMsg && op != opQuery {
		f.noReply = op == opInsert || op == opUpdate || op == opDelete || op == opKillCursors
		return opaque
	}
	m, ok := parseMessage(op, b)
	f.noReply = op == opMsg && m.flags&flagMoreToCome != 0 // they count, whatever else is to be seen
	f.exhaust = op == opMsg && m.flags&flagExhaustAllowed != 0
	switch {
	case !ok && cut: // the command stands behind what was opened
		return identified
	case !ok:
		return orBroken(whole)
	}
	if op == opQuery {
		db, coll, _ := bytes.Cut(m.ns, []byte{'.'})
		f.db = db
		if string(coll) != "$cmd" {
			f.coll, f.name = coll, []byte("find")
			return identified
		}
	}
	f.body = m.body
	return f.command(m.body, whole)
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
	s := scan(doc)
	var e element
	if !s.next(&e) {
		if s.empty() { // the server knows what to say to no command
			return identified
		}
		return orBroken(whole || !s.short)
	}
	f.name = e.key
	if string(e.key) == "query" || string(e.key) == "$query" {
		if inner, body := e.doc(), e.value; inner.next(&e) { // OP_QUERY may wrap the command
			f.name, f.body = e.key, body
			f.coll = e.str()
			f.fields(&inner)
			return identified
		}
	}
	if e.typ == typeInt64 {
		f.cursor, _ = e.number()
	}
	f.coll = e.str()
	f.fields(&s)
	if s.short && !whole {
		return needMore
	}
	return identified
}

// fields reads the fields behind the command's name.
func (f *facts) fields(s *scanner) {
	var e element
	for s.next(&e) {
		switch string(e.key) {
		case "$db":
			f.db = e.str()
		case "collection":
			if f.coll == nil {
				f.coll = e.str()
			}
		case "lsid":
			f.lsid = sessionID(e)
		case "txnNumber":
			f.txn, _ = e.number()
		case "autocommit":
			f.inTxn = !e.truthy()
		case "startTransaction":
			f.startTxn = e.truthy()
		case "maxTimeMS":
			if ms, ok := e.number(); ok && ms > 0 && ms < 1<<40 {
				f.maxTime = time.Duration(ms) * time.Millisecond
			}
		case "pipeline":
			f.stream = changeStream(e.doc())
		case "tailable", "awaitData", "maxAwaitTimeMS", "topologyVersion":
			f.stream = f.stream || string(e.key) == "awaitData" && e.truthy() // only with tailable
			f.awaits = f.awaits || e.typ == typeDocument || e.truthy()
		case "$readPreference":
			if mode, ok := lookup(e.value, "mode"); ok && e.typ == typeDocument {
				f.readPref = mode.str()
			}
		case "comment":
			f.comment = e.str()
			if class, ok := lookupIn(e, "class"); ok {
				f.class = class.str()
			}
		}
	}
}

// sessionID returns the UUID of a session, nil when e holds none.
func sessionID(e element) []byte {
	id, ok := lookupIn(e, "id")
	if !ok || id.typ != typeBinary || len(id.value) != 21 {
		return nil
	}
	return id.value[5:]
}

// changeStream reports whether a pipeline begins with $changeStream.
func changeStream(pipeline scanner) bool {
	var stage, e element
	if !pipeline.next(&stage) {
		return false
	}
	inner := stage.doc()
	return inner.next(&e) && string(e.key) == "$changeStream"
}
