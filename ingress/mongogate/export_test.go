package mongogate

import (
	"time"

	"github.com/admitd/admitd/labels"
)

// Facts are what identify finds, as plain values.
type Facts struct {
	Verdict                                  string
	Command, Database, Collection            string
	ReadPreference, Comment                  string
	MaxTime                                  time.Duration
	InTxn, StartTxn, NoReply, Exhaust, Await bool
	Txn, Cursor                              int64
}

// Identify runs identify on a frame of which the first have bytes are there.
func Identify(frame []byte, have int) (Facts, error) {
	h, err := readHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		return Facts{}, err
	}
	var f facts
	var open opener
	v := identify(h, frame[:have], &f, &open)
	return Facts{
		Verdict: [...]string{"identified", "needMore", "opaque", "broken"}[v],
		Command: string(f.name), Database: string(f.db), Collection: string(f.coll),
		ReadPreference: string(f.readPref), Comment: string(f.comment), MaxTime: f.maxTime,
		InTxn: f.inTxn, StartTxn: f.startTxn, NoReply: f.noReply, Exhaust: f.exhaust, Await: f.awaits,
		Txn: f.txn, Cursor: f.cursor,
	}, nil
}

// IdentifyAllocs identifies a frame with reused scratch, for counting
// allocations.
func IdentifyAllocs(frame []byte) func() {
	h, err := readHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	var f facts
	var open opener
	return func() { identify(h, frame, &f, &open) }
}

// RefusalFrame returns the bytes that refuse a request.
func RefusalFrame(id int32, legacy bool, d labels.Document, g Generation, r Refusal) []byte {
	op := opMsg
	if legacy {
		op = opQuery
	}
	return endFrame(appendRefusal(beginReply(nil, id, op), &d, g, &r), 0)
}

// RefusalAppend is RefusalFrame into a buffer, as sessions do it.
func RefusalAppend(dst []byte, d *labels.Document) []byte {
	return endFrame(appendRefusal(beginReply(dst[:0], 1, opMsg), d, Hinted, &Refusal{}), 0)
}

// RewriteHello runs the topology on a reply to hello.
func RewriteHello(t Topology, reply []byte, backend string) ([]byte, error) {
	h := hellos{mode: t.Mode, members: t.Members}
	return h.rewrite(nil, reply, backend)
}

// CheckHello runs the check of a probe.
func CheckHello(t Topology, reply []byte) error {
	h := hellos{mode: t.Mode, members: t.Members}
	return h.check(reply)
}

// SnappyPrefix decompresses the start of a snappy block.
func SnappyPrefix(dst, src []byte) (int, error) { return snappyPrefix(dst, src) }

// ReadUser reads who a handshake command wants to be.
func ReadUser(body []byte, db string) string { return readUser(body, []byte(db)) }

// Walk scans a document to its leaves and returns how many elements there are
// and how many bytes of values they have.
func Walk(b []byte) (elements, size int) {
	var e element
	s := scan(b)
	for s.next(&e) {
		elements++
		size += len(e.value)
		_, _ = e.number()
		_ = e.str()
		if e.typ == typeDocument || e.typ == typeArray {
			n, _ := Walk(e.value)
			elements += n
		}
	}
	return elements, size
}

// PartitionKey returns the key of a request.
func PartitionKey(by []string, frame []byte) string {
	h, err := readHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	parts, err := parseParts(by)
	if err != nil {
		panic(err)
	}
	ses := &session{s: &Server{parts: parts}}
	identify(h, frame, &ses.f, &ses.opener)
	return ses.partition()
}

// Sweeps returns how often a full ledger is swept by looks that far apart.
func Sweeps(looks int, apart time.Duration) int {
	var l ledger
	var owner holding
	for i := range int64(ledgerBound) {
		l.opened(i+1, 1, &owner, false)
	}
	n, last := 0, l.swept
	for i := range looks {
		now := int64(time.Hour) + int64(i)*int64(apart)
		l.opened(-1, now, &owner, false)
		l.open(now)
		if l.swept != last {
			n, last = n+1, l.swept
		}
	}
	return n
}

// ErrFrame is what malformed frames wrap.
var ErrFrame = errFrame

// FindCursor feeds a reply to the finder in parts of the given size.
func FindCursor(reply []byte, part int) (id int64, found bool) {
	var c cursorFinder
	c.start()
	for len(reply) > 0 {
		n := min(part, len(reply))
		if id, found := c.feed(reply[:n]); found {
			return id, true
		}
		reply = reply[n:]
	}
	return 0, false
}

// Client is what a hello says, as plain values.
type Client struct {
	Application, Driver string
	Generation          Generation
}

// ReadClient reads the announcements from a hello, and whether it would, as a
// reply, end a conversation well.
func ReadClient(body []byte) (Client, bool) {
	c := readClient(body)
	return Client{Application: c.application, Driver: c.driver, Generation: c.generation}, authenticated(body)
}

// Prefix opens the start of an OP_COMPRESSED payload.
func Prefix(p []byte, complete bool) (b []byte, whole, ok bool) {
	var o opener
	r := o.prefix(p, complete)
	return r.b, r.whole, r.ok
}

// Cost returns what a frame costs under the options, in tokens.
func Cost(o Options, frame []byte) float64 {
	h, err := readHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	var f facts
	var open opener
	identify(h, frame, &f, &open)
	table := newCommandTable(&o)
	return table.find(f.name).cost
}

// OpenedMax bounds what is opened of a compressed frame, in bytes.
const OpenedMax = openedMax
