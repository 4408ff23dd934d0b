package mongogate

import (
	"time"

	"github.com/admitd/admitd/internal/mongowire"
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
	h, err := mongowire.ReadHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		return Facts{}, err
	}
	var f facts
	var open mongowire.Opener
	v := identify(h, frame[:have], &f, &open)
	return Facts{
		Verdict: [...]string{"identified", "needMore", "opaque", "broken"}[v],
		Command: string(f.name), Database: string(f.db), Collection: string(f.coll),
		ReadPreference: string(f.readPref), Comment: string(f.comment), MaxTime: f.maxTime,
		InTxn: f.txn.in, StartTxn: f.txn.starts, NoReply: f.noReply, Exhaust: f.exhaust, Await: f.awaits,
		Txn: f.txn.number, Cursor: f.cursor,
	}, nil
}

// IdentifyAllocs identifies a frame with reused scratch, for counting
// allocations.
func IdentifyAllocs(frame []byte) func() {
	h, err := mongowire.ReadHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	var f facts
	var open mongowire.Opener
	return func() { identify(h, frame, &f, &open) }
}

// RefusalFrame returns the bytes that refuse a request.
func RefusalFrame(id int32, legacy bool, d labels.Document, g Generation, r Refusal) []byte {
	op := mongowire.OpMsg
	if legacy {
		op = mongowire.OpQuery
	}
	return mongowire.EndFrame(appendRefusal(beginReply(nil, id, op), &d, g, &r), 0)
}

// RefusalAppend is RefusalFrame into a buffer, as sessions do it.
func RefusalAppend(dst []byte, d *labels.Document) []byte {
	return mongowire.EndFrame(appendRefusal(beginReply(dst[:0], 1, mongowire.OpMsg), d, Hinted, &Refusal{}), 0)
}

// RewriteHello runs the topology on a reply to hello.
func RewriteHello(t Topology, reply []byte, backend string) ([]byte, error) {
	h := helloRewriter{mode: t.Mode, members: t.Members}
	return h.rewrite(nil, reply, backend)
}

// CheckHello runs the check of a probe.
func CheckHello(t Topology, reply []byte) error {
	h := helloRewriter{mode: t.Mode, members: t.Members}
	return h.check(reply)
}

// ReadUser reads who a handshake command wants to be.
func ReadUser(body []byte, db string) string { return readUser(body, []byte(db)) }

// PartitionKey returns the key of a request.
func PartitionKey(by []string, frame []byte) string {
	h, err := mongowire.ReadHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	parts, err := parseParts(by)
	if err != nil {
		panic(err)
	}
	s := &settings{parts: parts}
	var f facts
	var open mongowire.Opener
	identify(h, frame, &f, &open)
	return string(s.partition(&f, &peer{}, new([]byte)))
}

// Sweeps returns how often a full ledger is swept by looks that far apart.
func Sweeps(looks int, apart time.Duration) int {
	var l openWork
	var owner connOpenWork
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

// Cost returns what a frame costs under the options, in tokens.
func Cost(o Options, frame []byte) float64 {
	h, err := mongowire.ReadHeader(frame, DefaultMaxMessageBytes)
	if err != nil {
		panic(err)
	}
	var f facts
	var open mongowire.Opener
	identify(h, frame, &f, &open)
	table := newCommandTable(&o)
	return table.find(f.name).cost
}

// Intern returns what turns keys into strings.
func Intern() func(key []byte) string {
	i := newInterner()
	return i.get
}
