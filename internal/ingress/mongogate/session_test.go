package mongogate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// patience is how long a test waits for what must happen, however busy the machine is.
const patience = 30 * time.Second

// script is a backend of which the test plays the part.
type script struct {
	l     net.Listener
	conns chan net.Conn
}

func startScript(t *testing.T) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{l: l, conns: make(chan net.Conn, 16)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.conns <- c
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return s
}

// accept returns the next connection of the gate.
func (s *script) accept(t *testing.T) net.Conn {
	t.Helper()
	select {
	case c := <-s.conns:
		t.Cleanup(func() { c.Close() })
		if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
			t.Fatal(err)
		}
		return c
	case <-time.After(patience):
		t.Fatal("the gate did not connect")
		return nil
	}
}

// until waits for a condition.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(time.Millisecond)
	}
}

// serve runs a gate and returns its address and a func that drains it.
func serve(t *testing.T, p *limiter.Policy, o mongogate.Options) (s *mongogate.Server, addr string, drain func() error) {
	t.Helper()
	return serveBehind(t, limiter.New("test", p, limiter.Options{}), o)
}

// serveGate is serve with a gate that the test looks at.
func serveGate(t *testing.T, g *limiter.Gate, o mongogate.Options) (addr string) {
	t.Helper()
	_, addr, _ = serveBehind(t, g, o)
	return addr
}

func serveBehind(t *testing.T, g *limiter.Gate, o mongogate.Options) (s *mongogate.Server, addr string, drain func() error) {
	t.Helper()
	s, err := mongogate.New(g, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	hall := ingress.NewServer("test", s, ingress.Options{DrainTimeout: patience})
	served := make(chan error, 1)
	go func() { served <- hall.Serve(context.Background(), l) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // cut what the test left open
		_ = hall.Drain(ctx)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, l.Addr().String(), func() error { return hall.Drain(context.Background()) }
}

func dial(t *testing.T, addr string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return c
}

// readFrame reads one frame.
func readFrame(t *testing.T, c net.Conn) []byte {
	t.Helper()
	h := make([]byte, 16)
	if _, err := io.ReadFull(c, h); err != nil {
		t.Fatalf("read: %v", err)
	}
	b := make([]byte, binary.LittleEndian.Uint32(h))
	copy(b, h)
	if _, err := io.ReadFull(c, b[16:]); err != nil {
		t.Fatalf("read: %v", err)
	}
	return b
}

func write(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// expectFrame reads a frame and compares.
func expectFrame(t *testing.T, c net.Conn, want []byte) {
	t.Helper()
	if got := readFrame(t, c); !bytes.Equal(got, want) {
		t.Fatalf("frame of %d bytes\n%x\nwant %d bytes\n%x", len(got), got[:min(len(got), 100)], len(want), want[:min(len(want), 100)])
	}
}

// expectRefusal reads a frame and checks that it is a refusal of request id.
func expectRefusal(t *testing.T, c net.Conn, id int32) bson.Raw {
	t.Helper()
	b := readFrame(t, c)
	if to := int32(binary.LittleEndian.Uint32(b[8:])); to != id {
		t.Fatalf("reply to %d, want a refusal of %d", to, id)
	}
	raw := bson.Raw(b[21:])
	if raw.Lookup("code").AsInt64() != 462 {
		t.Fatalf("reply %s, want code 462", raw)
	}
	return raw
}

// reply builds the reply to a request.
func reply(to int32, d bson.D) []byte {
	return frame(to+1000, to, 2013, msgPayload(0, d))
}

func ok() bson.D { return bson.D{{Key: "ok", Value: 1.0}} }

func cmd(name string, more ...bson.E) bson.D {
	return append(append(bson.D{{Key: name, Value: "orders"}}, more...), bson.E{Key: "$db", Value: "shop"})
}

// oneAtATime admits one command at a time and lets nobody wait.
func oneAtATime() *limiter.Policy {
	return &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1) }}}
}

// Frames pass byte for byte, whatever their size or flags.
func TestPassThrough(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{Mode: limiter.Off}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	frames := map[string][]byte{
		"small":     msg(1, 0, cmd("find")),
		"checksum":  frame(2, 0, 2013, append(msgPayload(1, cmd("find")), 9, 9, 9, 9)),
		"zlib":      compressed(3, 2, msgPayload(0, cmd("find"))),
		"1 MiB":     msg(4, 0, cmd("insert"), sequence(bson.D{{Key: "a", Value: make([]byte, 1<<20)}})),
		"db behind": msg(5, 0, bson.D{{Key: "insert", Value: "orders"}, {Key: "documents", Value: bson.A{bson.D{{Key: "a", Value: make([]byte, 300_000)}}}}, {Key: "$db", Value: "shop"}}),
		"OP_QUERY":  query(6, "shop.$cmd", cmd("count")),
	}
	var up net.Conn
	for name, f := range frames {
		sent := make(chan error, 1)
		go func() { _, err := c.Write(f); sent <- err }()
		if up == nil {
			up = b.accept(t)
		}
		expectFrame(t, up, f)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		answer := reply(int32(binary.LittleEndian.Uint32(f[4:])), append(ok(), bson.E{Key: "pad", Value: make([]byte, len(f))}))
		go func() { _, err := up.Write(answer); sent <- err }()
		expectFrame(t, c, answer)
		if err := <-sent; err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
}

// Requests in one write keep their order, the refused ones included: each
// answer of the gate comes behind the replies before it.
func TestPipelinedOrder(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.002, BurstSeconds: 1000}}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	var all []byte
	for id := range int32(4) {
		all = append(all, msg(id+1, 0, cmd("find"))...)
	}
	write(t, c, append(all, msg(5, 0, cmd("hello"))...))
	up := b.accept(t)
	for id := int32(1); id <= 2; id++ {
		expectFrame(t, up, msg(id, 0, cmd("find")))
		write(t, up, reply(id, ok()))
		expectFrame(t, c, reply(id, ok()))
	}
	expectRefusal(t, c, 3)
	expectRefusal(t, c, 4)
	expectFrame(t, up, msg(5, 0, cmd("hello"))) // 3 and 4 never came
}

// Handshakes pass when nothing else does, and commands that give resources
// back are counted but never refused.
func TestNeverRefused(t *testing.T) {
	b := startScript(t)
	s, addr, _ := serve(t, &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, msg(1, 0, cmd("find"))) // the only token
	up := b.accept(t)
	readFrame(t, up)
	write(t, up, reply(1, ok()))
	readFrame(t, c)
	write(t, c, msg(2, 0, cmd("find")))
	expectRefusal(t, c, 2)
	for i, name := range []string{
		"hello", "isMaster", "ismaster", "saslStart", "saslContinue", "authenticate", "logout",
		"killCursors", "endSessions", "commitTransaction", "abortTransaction",
	} {
		f := msg(int32(10+i), 0, cmd(name))
		write(t, c, f)
		expectFrame(t, up, f)
		write(t, up, reply(int32(10+i), ok()))
		expectFrame(t, c, reply(int32(10+i), ok()))
	}
	if got := s.Status().RequestRateLimiter; got.AttemptedAdmissions != 2 || got.SuccessfulAdmissions != 1 || got.RejectedAdmissions != 1 || got.ExemptedAdmissions != 4 {
		t.Errorf("counters: %+v; want 2 attempted, 1 successful, 1 rejected, 4 exempted", got)
	}
}

// A refused command that wants no reply gets none, and a reply of the backend
// to one that wanted none is swallowed: one extra reply would shift all later
// ones.
func TestFireAndForget(t *testing.T) {
	b := startScript(t)
	s, addr, _ := serve(t, &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.002, BurstSeconds: 1000}}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, msg(1, 2, cmd("insert")))
	up := b.accept(t)
	expectFrame(t, up, msg(1, 2, cmd("insert")))
	write(t, up, reply(1, ok())) // FerretDB does this
	write(t, c, msg(2, 0, cmd("find")))
	expectFrame(t, up, msg(2, 0, cmd("find")))
	write(t, up, reply(2, ok()))
	expectFrame(t, c, reply(2, ok()))
	write(t, c, msg(3, 2, cmd("insert"))) // no token is left
	write(t, c, msg(4, 0, cmd("find")))
	expectRefusal(t, c, 4)
	if got := s.Status().RequestRateLimiter; got.RepliesSwallowed != 1 || got.FireAndForgetDropped != 1 {
		t.Errorf("counters: %+v; want 1 swallowed, 1 dropped", got)
	}
}

// An exhaust stream is one request with many replies: the permit ends with the
// first, the order is kept until the last, and each hello in it is rewritten.
func TestExhaustStream(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{
		Backends: []string{b.l.Addr().String()},
		Topology: mongogate.Topology{Mode: mongogate.TopologyMembers, Members: map[string]string{"db2:27017": "gate:9002"}},
	})
	c := dial(t, addr)
	write(t, c, msg(1, 1<<16, bson.D{{Key: "hello", Value: 1}, {Key: "maxAwaitTimeMS", Value: int64(10000)}, {Key: "$db", Value: "admin"}}))
	up := b.accept(t)
	readFrame(t, up)
	to := int32(1)
	for i := range 4 {
		flags := uint32(2)
		if i == 3 {
			flags = 0
		}
		id := int32(500 + i)
		write(t, up, frame(id, to, 2013, msgPayload(flags, member())))
		to = id
		got := readFrame(t, c)
		if bytes.Contains(got, []byte("db1:27017")) || !bytes.Contains(got, []byte("gate:9002")) {
			t.Fatalf("reply %d of the stream was not rewritten", i)
		}
		if flags := binary.LittleEndian.Uint32(got[16:]); (flags&2 != 0) != (i < 3) {
			t.Fatalf("reply %d: flags %x", i, flags)
		}
	}
	write(t, c, msg(2, 0, cmd("find")))
	expectFrame(t, up, msg(2, 0, cmd("find")))
	write(t, up, reply(2, ok()))
	expectFrame(t, c, reply(2, ok()))
}

// A member of a replica set cannot be reached through a gate that would be
// bypassed; the error says what to do.
func TestBypassIsAnswered(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, query(1, "admin.$cmd", bson.D{{Key: "isMaster", Value: 1}}))
	up := b.accept(t)
	readFrame(t, up)
	payload := append([]byte{8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}, doc(member())...)
	write(t, up, frame(9, 1, 1, payload))
	got := readFrame(t, c)
	if binary.LittleEndian.Uint32(got[12:]) != 1 || !bytes.Contains(got, []byte("topology.mode")) || bytes.Contains(got, []byte(":27017")) {
		t.Errorf("reply %q; want an OP_REPLY that explains the topology and names no member", got)
	}
}

// Garbage, lies about lengths and truncated frames end the connection, reach no
// backend and hold no memory.
func TestGarbage(t *testing.T) {
	b := startScript(t)
	s, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}, HandshakeTimeout: 300 * time.Millisecond})
	for name, garbage := range map[string][]byte{
		"http":        []byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
		"zero":        make([]byte, 64),
		"negative":    bytes.Repeat([]byte{0xff}, 64),
		"no document": frame(1, 0, 2013, []byte{0, 0, 0, 0, 0}),
		"truncated":   msg(1, 0, cmd("find"))[:30],
		"silence":     nil,
	} {
		c := dial(t, addr)
		write(t, c, garbage)
		if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: read %d bytes, %v; want the connection closed", name, n, err)
		}
	}
	select {
	case <-b.conns:
		t.Error("garbage reached the backend")
	default:
	}
	until(t, "the gate forgets the connections", func() bool { return s.Status().Connections == 0 })
}

// A drain lets the command in progress finish, closes idle connections at
// once, and waits for an open cursor until it is read to its end.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		idle, idleEnded := sc.enter()
		say(idle, msg(1, 0, cmd("ping")))
		upIdle := sc.backend()
		readFrame(t, upIdle)
		say(upIdle, reply(1, ok()))
		readFrame(t, idle)
		busy, busyEnded := sc.enter()
		say(busy, msg(1, 0, cmd("find")))
		up := sc.backend()
		readFrame(t, up)

		sc.drain()
		synctest.Wait()
		<-idleEnded
		say(up, reply(1, opens(77)))
		expectFrame(t, busy, reply(1, opens(77)))
		say(busy, msg(2, 0, cmd("find"))) // starts something new
		if d := expectRefusal(t, busy, 2); d.Lookup("reason").StringValue() != "draining" {
			t.Errorf("reason %v, want draining", d.Lookup("reason"))
		}
		time.Sleep(time.Minute)
		select {
		case <-busyEnded:
			t.Fatal("the connection of an open cursor was closed")
		default:
		}
		ask(t, busy, up, 3, more(77), opens(0))
		<-busyEnded
	})
}

// A drain of the whole server closes what is idle, and waits for what is not.
func TestDrainOfTheServer(t *testing.T) {
	b := startScript(t)
	_, addr, drain := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	enter := func() (c, up net.Conn) {
		c = dial(t, addr)
		write(t, c, msg(1, 0, cmd("find")))
		up = b.accept(t)
		readFrame(t, up)
		return c, up
	}
	idle, up := enter()
	write(t, up, reply(1, ok()))
	readFrame(t, idle)
	busy, up := enter()
	drained := make(chan error, 1)
	go func() { drained <- drain() }()
	if _, err := idle.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("idle connection: %v, want EOF", err)
	}
	write(t, up, reply(1, ok()))
	expectFrame(t, busy, reply(1, ok()))
	if _, err := busy.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("busy connection: %v, want EOF", err)
	}
	if err := <-drained; err != nil {
		t.Errorf("Drain: %v", err)
	}
}

// A client that leaves while its command waits for admission gives its place
// back.
func TestClientLeavesQueue(t *testing.T) {
	b := startScript(t)
	p := oneAtATime()
	p.Default.QueueDepth, p.Default.MaxWait = 1, time.Minute
	s, addr, _ := serve(t, p, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	first, second := dial(t, addr), dial(t, addr)
	write(t, first, msg(1, 0, cmd("find")))
	up := b.accept(t)
	readFrame(t, up)
	write(t, second, msg(1, 0, cmd("find")))
	second.Close()
	until(t, "the place in the queue is given back", func() bool { return s.Status().RequestRateLimiter.InterruptedInQueue == 1 })
	third := dial(t, addr) // finds the one place in the queue free
	write(t, third, msg(1, 0, cmd("find")))
	write(t, up, reply(1, ok()))
	readFrame(t, first)
	up2 := b.accept(t)
	readFrame(t, up2)
	write(t, up2, reply(1, ok()))
	expectFrame(t, third, reply(1, ok()))
}

// A command does not wait longer than its own maxTimeMS.
func TestWaitIsBoundedByMaxTime(t *testing.T) {
	b := startScript(t)
	p := oneAtATime()
	p.Default.QueueDepth, p.Default.MaxWait = 10, time.Hour
	_, addr, _ := serve(t, p, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	first, second := dial(t, addr), dial(t, addr)
	write(t, first, msg(1, 0, cmd("find")))
	up := b.accept(t)
	readFrame(t, up)
	write(t, second, msg(1, 0, cmd("find", bson.E{Key: "maxTimeMS", Value: int64(50)})))
	if d := expectRefusal(t, second, 1); d.Lookup("reason").StringValue() != "queue_timeout" {
		t.Errorf("reason %v, want queue_timeout", d.Lookup("reason"))
	}
}

// An error of the backend that means overload passes unchanged, whatever its labels,
// and counts as a drop.
func TestBackendOverloadPasses(t *testing.T) {
	overloaded, retryable, unwritten := "SystemOverloadedError", "RetryableError", "NoWritesPerformed"
	b := startScript(t)
	s, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	var up net.Conn
	var want int64
	for i, tc := range []struct {
		code   int32
		labels bson.A
		drops  bool
	}{
		{462, bson.A{overloaded}, true},
		{463, bson.A{overloaded, retryable, unwritten}, true},
		{463, nil, true},
		{473, bson.A{overloaded}, true},
		{473, nil, true},
		{262, nil, true},
		{9, bson.A{overloaded}, true},
		{11000, nil, false},
		{112, bson.A{"TransientTransactionError"}, false},
	} {
		id := int32(i + 1)
		d := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: tc.code}}
		if tc.labels != nil {
			d = append(d, bson.E{Key: "errorLabels", Value: tc.labels})
		}
		write(t, c, msg(id, 0, cmd("find")))
		if up == nil {
			up = b.accept(t)
		}
		readFrame(t, up)
		write(t, up, reply(id, d))
		expectFrame(t, c, reply(id, d)) // no label is added
		if tc.drops {
			want++
		}
		if n := s.Status().RequestRateLimiter.BackendOverloadErrors; n != want {
			t.Errorf("code %d with %v: %d overload errors counted, want %d", tc.code, tc.labels, n, want)
		}
	}
}

// A client that sends and never reads is held back: what waits behind a reply
// is not forwarded, and holds nothing.
func TestPipelineTakesTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, oneAtATime(), mongogate.Options{})
		c, _ := sc.enter()
		const n = 2000
		var all []byte
		for i := range int32(n) {
			all = append(all, msg(i+1, 0, cmd("find"))...)
		}
		say(c, all)
		up := sc.backend()
		for i := range int32(n) {
			expectFrame(t, up, msg(i+1, 0, cmd("find")))
			if i == 0 {
				if err := up.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
					t.Fatal(err)
				}
				if _, err := up.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("a second request is on its way, and the first is not answered (%v)", err)
				}
				if err := up.SetReadDeadline(time.Time{}); err != nil {
					t.Fatal(err)
				}
			}
			say(up, reply(i+1, ok()))
			expectFrame(t, c, reply(i+1, ok()))
		}
	})
}

// A request that waits for admission does not hold back what was admitted in
// the same write: it may be waiting for just that permit.
func TestWaitingSendsWhatIsDecided(t *testing.T) {
	b := startScript(t)
	p := oneAtATime()
	p.Default.QueueDepth, p.Default.MaxWait = 1, time.Minute
	_, addr, _ := serve(t, p, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, append(msg(1, 0, cmd("find")), msg(2, 0, cmd("find"))...))
	up := b.accept(t)
	for id := range int32(2) {
		expectFrame(t, up, msg(1+id, 0, cmd("find")))
		write(t, up, reply(1+id, ok()))
		expectFrame(t, c, reply(1+id, ok()))
	}
}
