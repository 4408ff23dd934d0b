package mongogate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// scene is a gate in a bubble, whose backend is played by the test.
type scene struct {
	t     *testing.T
	gate  *limiter.Gate
	s     *mongogate.Server
	dials chan net.Conn
	drain context.CancelFunc
	ctx   context.Context // of all connections; done when the drain begins
}

func stage(t *testing.T, p *limiter.Policy, o mongogate.Options) *scene {
	t.Helper()
	sc := &scene{t: t, gate: limiter.New("test", p, limiter.Options{}), dials: make(chan net.Conn, 64)}
	if o.Backends == nil {
		o.Backends = []string{"db:27017"}
	}
	if o.Dial == nil {
		o.Dial = func(context.Context, string) (net.Conn, error) { return sc.pipe(), nil }
	}
	var err error
	if sc.s, err = mongogate.New(sc.gate, o); err != nil {
		t.Fatal(err)
	}
	sc.ctx, sc.drain = context.WithCancel(t.Context())
	t.Cleanup(sc.drain)
	return sc
}

// pipe returns the gate's end of a connection to the backend.
func (sc *scene) pipe() net.Conn {
	near, far := net.Pipe()
	sc.dials <- far
	return near
}

// enter connects a client. The channel is closed when the gate is done with it.
func (sc *scene) enter() (net.Conn, <-chan struct{}) {
	near, far := net.Pipe()
	ended := make(chan struct{})
	go func() { defer close(ended); sc.s.ServeConn(sc.ctx, far) }()
	sc.t.Cleanup(func() { _ = near.Close() })
	return near, ended
}

// backend returns the backend's end of the next connection.
func (sc *scene) backend() net.Conn {
	c := <-sc.dials
	sc.t.Cleanup(func() { _ = c.Close() })
	return c
}

// free reports whether a permit is free.
func (sc *scene) free() bool {
	p, err := sc.gate.TryAdmit(sc.gate.Now(), limiter.Request{MaxWait: -1})
	p.End(limiter.Ignored)
	return err == nil
}

// say writes without waiting for whoever reads.
func say(c net.Conn, b []byte) { go func() { _, _ = c.Write(b) }() }

// ask sends a request, and answers it at the backend.
func ask(t *testing.T, c, up net.Conn, id int32, request, answer bson.D) {
	t.Helper()
	say(c, msg(id, 0, request))
	expectFrame(t, up, msg(id, 0, request))
	say(up, reply(id, answer))
	expectFrame(t, c, reply(id, answer))
}

// met returns both ends of a client's connection on which a command was answered.
func (sc *scene) met(command string) (c, up net.Conn) {
	sc.t.Helper()
	c, _ = sc.enter()
	say(c, msg(1, 0, cmd(command)))
	up = sc.backend()
	expectFrame(sc.t, up, msg(1, 0, cmd(command)))
	say(up, reply(1, ok()))
	expectFrame(sc.t, c, reply(1, ok()))
	return c, up
}

// opens is a reply that leaves a cursor open.
func opens(id int64) bson.D {
	return bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{}}, {Key: "id", Value: id}, {Key: "ns", Value: "shop.orders"}}}, {Key: "ok", Value: 1.0}}
}

func more(id int64) bson.D {
	return bson.D{{Key: "getMore", Value: id}, {Key: "collection", Value: "orders"}, {Key: "$db", Value: "shop"}}
}

// A client that hung up used to give its permit back while the server went on
// with its command: the limit bounded who waited, not what was at work.
func TestPermitOutlivesItsClient(t *testing.T) {
	for name, cancel := range map[string]bool{"finish": false, "cancel": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, oneAtATime(), mongogate.Options{CancelAbandoned: cancel})
				c, ended := sc.enter()
				say(c, msg(1, 0, cmd("find")))
				up := sc.backend()
				readFrame(t, up)
				_ = c.Close()
				synctest.Wait()
				if cancel {
					<-ended
					if _, err := up.Read(make([]byte, 1)); !errors.Is(err, io.EOF) || !sc.free() {
						t.Errorf("read %v, permit free: %v; want the end of the stream, and true", err, sc.free())
					}
					return
				}
				time.Sleep(time.Minute)
				if sc.free() {
					t.Error("a permit is free while the server works, want none")
				}
				say(up, reply(1, ok()))
				<-ended
				if !sc.free() {
					t.Error("the permit is held after the server replied")
				}
			})
		})
	}
}

// Flags stand in front, and count whatever else is to be seen: a command that
// wants no reply held its permit until its client left when a long section stood
// before its body, and was answered when it was refused, which shifted all later
// replies. Compressed, it ended the connection.
func TestFlagsBeforeALongSection(t *testing.T) {
	payload := behind(2)
	for name, f := range map[string][]byte{"plain": frame(1, 0, 2013, payload), "zlib": compressed(1, 2, payload)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, oneAtATime(), mongogate.Options{})
				c, _ := sc.enter()
				say(c, f)
				up := sc.backend()
				expectFrame(t, up, f)
				synctest.Wait()
				if !sc.free() {
					t.Error("the permit is held, and no reply will come")
				}
				held, err := sc.gate.TryAdmit(sc.gate.Now(), limiter.Request{})
				if err != nil {
					t.Fatal(err)
				}
				say(c, append(bytes.Clone(f), msg(2, 0, cmd("find"))...))
				expectRefusal(t, c, 2) // and not 1
				held.End(limiter.Ignored)
				ask(t, c, up, 3, cmd("find"), ok())
			})
		})
	}
}

// What is not read, and what drips, ends after a while and holds up nobody else.
func TestSlowClientsHoldNoPermits(t *testing.T) {
	for name, slow := range map[string]func(t *testing.T, c, up net.Conn){
		"reads no reply": func(t *testing.T, c, up net.Conn) {
			t.Helper()
			say(c, bytes.Repeat(msg(1, 0, cmd("ping")), 12))
			readFrame(t, up)
			say(up, reply(1, append(ok(), bson.E{Key: "pad", Value: make([]byte, 8<<20)})))
		},
		"drips": func(_ *testing.T, c, up net.Conn) {
			f := msg(1, 0, cmd("insert"), sequence(bson.D{{Key: "a", Value: make([]byte, 2<<20)}}))
			go func() { _, _ = io.Copy(io.Discard, up) }()
			_, _ = c.Write(f[:300_000])
			for i := 300_000; ; i++ {
				if _, err := c.Write(f[i : i+1]); err != nil {
					return
				}
				time.Sleep(5 * time.Second)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, oneAtATime(), mongogate.Options{})
				c, ended := sc.enter()
				say(c, msg(99, 2, cmd("insert")))
				up := sc.backend()
				readFrame(t, up)
				began := time.Now()
				slow(t, c, up)
				<-ended
				if took := time.Since(began); took > time.Minute || !sc.free() {
					t.Errorf("ended after %v, permit free: %v; want at most a minute, true", took, sc.free())
				}
			})
		})
	}
}

// A server that waits in a change stream or a tailable cursor works on nothing:
// 40 of them used to take all permits of an idle server.
func TestWaitingCursorsHoldNoPermit(t *testing.T) {
	watch := bson.D{
		{Key: "aggregate", Value: "orders"},
		{Key: "pipeline", Value: bson.A{bson.D{{Key: "$changeStream", Value: bson.D{}}}}},
		{Key: "cursor", Value: bson.D{}},
		{Key: "$db", Value: "shop"},
	}
	tail := cmd("find", bson.E{Key: "awaitData", Value: true}, bson.E{Key: "tailable", Value: true})
	for name, tc := range map[string]struct {
		open bson.D
		hold bool
		free bool
	}{
		"change stream": {watch, false, true}, "tailable": {tail, false, true}, "find": {cmd("find"), false, false},
		"change stream, held": {watch, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, oneAtATime(), mongogate.Options{HoldStreams: tc.hold})
				c, ended := sc.enter()
				say(c, msg(1, 0, tc.open))
				up := sc.backend()
				readFrame(t, up)
				say(up, reply(1, opens(7)))
				readFrame(t, c)
				for id := range int32(3) { // it goes on being one
					say(c, msg(2+id, 0, more(7)))
					readFrame(t, up)
					if sc.free() != tc.free {
						t.Errorf("permit free while getMore %d is unanswered: %v, want %v", id, !tc.free, tc.free)
					}
					say(up, reply(2+id, opens(7)))
					readFrame(t, c)
				}
				if !tc.free {
					return
				}
				say(c, msg(9, 0, more(7)))
				readFrame(t, up)
				sc.drain() // clients resume what waits
				<-ended
			})
		})
	}
}

// A busy client that does not retry was told again and again that the gate
// drains, while another gate was free and its connection kept it here. Nothing
// open on a connection means that it is closed after its answer, whatever is
// open on others.
func TestDrainClosesBusyConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		reader, readerEnded := sc.enter()
		say(reader, msg(1, 0, cmd("find")))
		readerUp := sc.backend()
		readFrame(t, readerUp)
		say(readerUp, reply(1, opens(7)))
		readFrame(t, reader)
		busy, busyEnded := sc.enter()
		say(busy, msg(1, 0, cmd("find")))
		up := sc.backend()
		readFrame(t, up)
		late, lateEnded := sc.enter()
		say(late, msg(1, 2, cmd("insert")))
		readFrame(t, sc.backend())
		synctest.Wait()
		sc.drain()
		synctest.Wait()
		say(up, reply(1, ok()))
		expectFrame(t, busy, reply(1, ok()))
		<-busyEnded
		say(late, msg(2, 0, cmd("find")))
		if d := expectRefusal(t, late, 2); d.Lookup("reason").StringValue() != "draining" {
			t.Errorf("reason %v, want draining", d.Lookup("reason"))
		}
		<-lateEnded
		ask(t, reader, readerUp, 2, more(7), opens(0))
		<-readerEnded
	})
}

// A client that asks again faster than the gate polls was refused for as long
// as the drain lasted: the gate looked whether it may hang up only when it had
// nothing to read.
func TestDrainClosesQuickConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		reader, _ := sc.enter()
		say(reader, msg(1, 0, cmd("find")))
		readerUp := sc.backend()
		readFrame(t, readerUp)
		say(readerUp, reply(1, opens(7)))
		readFrame(t, reader)
		quick, ended := sc.enter()
		sc.drain()
		synctest.Wait()
		refused := int32(0)
		for head := make([]byte, 16); refused < 50; refused++ {
			say(quick, msg(1+refused, 0, cmd("find")))
			if _, err := io.ReadFull(quick, head); err != nil {
				break
			}
			_, _ = io.CopyN(io.Discard, quick, int64(binary.LittleEndian.Uint32(head))-16)
		}
		if refused > 1 {
			t.Errorf("refused %d times, want once and then closed", refused)
		}
		<-ended
	})
}

// A backend that cannot be dialled used to cost every second new connection.
func TestDeadBackendCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sc *scene
		tried := 0
		sc = stage(t, &limiter.Policy{}, mongogate.Options{
			Backends: []string{"dead:27017", "db:27017"}, Topology: mongogate.Topology{Mode: mongogate.TopologyLoadBalanced},
			Dial: func(_ context.Context, address string) (net.Conn, error) {
				if address == "dead:27017" {
					tried++
					return nil, errors.New("connection refused")
				}
				return sc.pipe(), nil
			},
		})
		for range 8 {
			c, _ := sc.enter()
			say(c, msg(1, 0, cmd("ping")))
			up := sc.backend()
			readFrame(t, up)
			say(up, reply(1, ok()))
			expectFrame(t, c, reply(1, ok()))
		}
		if tried != 1 {
			t.Errorf("the dead one was tried %d times, want once", tried)
		}
	})
}

// The server knows what to answer to a command without a name.
func TestEmptyCommandPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		c, _ := sc.enter()
		say(c, msg(1, 0, bson.D{}))
		up := sc.backend()
		expectFrame(t, up, msg(1, 0, bson.D{}))
		unknown := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 59}}
		say(up, reply(1, unknown))
		expectFrame(t, c, reply(1, unknown))
	})
}

// A drain waits for transactions, and not for those that an error ended, nor for
// ever for one whose session is zero.
func TestLedgerOfTransactions(t *testing.T) {
	in := func(name string, session byte, number int64) bson.D {
		id := bson.Binary{Subtype: 4, Data: bytes.Repeat([]byte{session}, 16)}
		return cmd(name, bson.E{Key: "lsid", Value: bson.D{{Key: "id", Value: id}}}, bson.E{Key: "txnNumber", Value: number},
			bson.E{Key: "autocommit", Value: false})
	}
	failed := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 112}, {Key: "errorLabels", Value: bson.A{"TransientTransactionError"}}}
	written := append(ok(), bson.E{Key: "writeErrors", Value: bson.A{bson.D{{Key: "code", Value: 11000}}}})
	for name, tc := range map[string]struct {
		request, answer bson.D
		left            int
	}{
		"goes on": {in("find", 1, 1), ok(), 1}, "fails": {in("find", 1, 1), failed, 0}, "fails to write": {in("insert", 1, 1), written, 0},
		"commits": {in("commitTransaction", 1, 1), ok(), 0}, "of another session": {in("commitTransaction", 2, 1), ok(), 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, &limiter.Policy{}, mongogate.Options{})
				c, _ := sc.enter()
				say(c, msg(1, 0, in("insert", 1, 1)))
				up := sc.backend()
				readFrame(t, up)
				say(up, reply(1, ok()))
				readFrame(t, c)
				ask(t, c, up, 2, in("insert", 0, 0), ok())
				ask(t, c, up, 3, in("abortTransaction", 0, 0), ok())
				ask(t, c, up, 4, tc.request, tc.answer)
				if n := sc.s.Status().OpenTransactions; n != tc.left {
					t.Errorf("%d transactions are open, want %d", n, tc.left)
				}
			})
		})
	}
}
