package modelmongo

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/modelwork"
	"github.com/admitd/admitd/internal/mongowire"
)

// Server is the model backend; handshakes cost nothing. It is safe for concurrent
// use.
type Server struct {
	workers *modelwork.Workers             // nil = work is somebody else's
	work    func(ctx context.Context) bool // false = the connection is dropped
	served  atomic.Int64
	set     atomic.Pointer[replicaSet]
}

// replicaSet is what a member says of its replica set.
type replicaSet struct {
	name, me string
	hosts    []string
}

// New returns a server on which at most workers commands run at a time, each
// for the service time, so that its capacity is workers / service time commands
// per second; the others wait in no particular order. With a service time of 0
// every command is answered at once.
func New(workers int, service time.Duration) *Server {
	w := modelwork.New(workers, service)
	return &Server{workers: w, work: w.Work}
}

// NewFor returns a server whose commands are answered when work returns true; the
// connection is dropped when it returns false. Many goroutines call it.
func NewFor(work func(ctx context.Context) bool) *Server { return &Server{work: work} }

// Restart answers at once what waits for a worker, as if the server had been
// restarted. It must come from [New].
func (s *Server) Restart() { s.workers.Restart() }

// Join makes the server call itself the primary, at the address me, of a
// replica set with these hosts.
func (s *Server) Join(name, me string, hosts ...string) {
	s.set.Store(&replicaSet{name: name, me: me, hosts: hosts})
}

// Served returns how many commands were answered, handshakes left out.
func (s *Server) Served() int64 { return s.served.Load() }

// Serve accepts from l until ctx is done, and returns when every connection is
// closed. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	return modelwork.Serve(ctx, l, s.serveConn)
}

// serveConn answers one client, command by command.
func (s *Server) serveConn(ctx context.Context, c net.Conn) {
	r := bufio.NewReader(c)
	var f frame
	var out, doc []byte
	for f.read(r) == nil {
		if f.more {
			if !s.serve(ctx, commandName(f.doc)) {
				return
			}
			continue
		}
		name := commandName(f.doc)
		if !s.serve(ctx, name) {
			return
		}
		h := mongowire.Header{ID: f.ID + 1, ResponseTo: f.ID, Op: mongowire.OpMsg}
		if f.Op == mongowire.OpQuery {
			h.Op = mongowire.OpReply
		}
		doc = appendAnswer(doc[:0], name, s.set.Load())
		out = mongowire.AppendMessage(out[:0], h, doc)
		if _, err := c.Write(out); err != nil {
			return
		}
	}
}

// commandName returns the command's name, "" when there is none.
func commandName(doc bsoncore.Document) string {
	e, err := doc.IndexErr(0)
	if err != nil {
		return ""
	}
	return e.Key()
}

// handshake reports whether the command costs nothing.
func handshake(name string) bool {
	switch name {
	case "hello", "isMaster", "ismaster", "endSessions", "buildInfo":
		return true
	}
	return false
}

// serve does the work of a command.
func (s *Server) serve(ctx context.Context, name string) bool {
	if handshake(name) {
		return true
	}
	defer s.served.Add(1)
	return s.work(ctx)
}

// appendAnswer appends the document that answers a command.
func appendAnswer(dst []byte, name string, set *replicaSet) []byte {
	at, dst := bsoncore.AppendDocumentStart(dst)
	switch name {
	case "hello", "isMaster", "ismaster":
		dst = appendHello(dst)
		if set != nil {
			dst = set.append(dst)
		}
	case "find", "aggregate", "getMore":
		batch := "firstBatch"
		if name == "getMore" {
			batch = "nextBatch"
		}
		row := bsoncore.BuildDocument(nil, bsoncore.AppendInt32Element(nil, "_id", 1), bsoncore.AppendStringElement(nil, "item", "gadget"))
		dst = bsoncore.BuildDocumentElement(dst, "cursor",
			bsoncore.BuildArrayElement(nil, batch, bsoncore.Value{Type: bsoncore.TypeEmbeddedDocument, Data: row}),
			bsoncore.AppendInt64Element(nil, "id", 0), bsoncore.AppendStringElement(nil, "ns", "model.model"))
	case "insert", "update", "delete":
		dst = bsoncore.AppendInt32Element(dst, "n", 1)
	}
	dst = bsoncore.AppendDoubleElement(dst, "ok", 1)
	dst, _ = bsoncore.AppendDocumentEnd(dst, at)
	return dst
}

// appendHello appends what a standalone server says of itself.
func appendHello(dst []byte) []byte {
	dst = bsoncore.AppendBooleanElement(dst, "helloOk", true)
	dst = bsoncore.AppendBooleanElement(dst, "ismaster", true)
	dst = bsoncore.AppendBooleanElement(dst, "isWritablePrimary", true)
	dst = bsoncore.AppendInt32Element(dst, "maxBsonObjectSize", 16<<20)
	dst = bsoncore.AppendInt32Element(dst, "maxMessageSizeBytes", 48_000_000)
	dst = bsoncore.AppendInt32Element(dst, "maxWriteBatchSize", 100_000)
	dst = bsoncore.AppendInt32Element(dst, "logicalSessionTimeoutMinutes", 30)
	dst = bsoncore.AppendInt32Element(dst, "minWireVersion", 0)
	dst = bsoncore.AppendInt32Element(dst, "maxWireVersion", 21)
	return bsoncore.AppendBooleanElement(dst, "readOnly", false)
}

// append appends what a primary says of its set.
func (r *replicaSet) append(dst []byte) []byte {
	hosts := make([]bsoncore.Value, len(r.hosts))
	for i, h := range r.hosts {
		hosts[i] = bsoncore.Value{Type: bsoncore.TypeString, Data: bsoncore.AppendString(nil, h)}
	}
	dst = bsoncore.AppendStringElement(dst, "setName", r.name)
	dst = bsoncore.AppendInt32Element(dst, "setVersion", 1)
	dst = bsoncore.BuildArrayElement(dst, "hosts", hosts...)
	dst = bsoncore.AppendStringElement(dst, "primary", r.me)
	return bsoncore.AppendStringElement(dst, "me", r.me)
}
