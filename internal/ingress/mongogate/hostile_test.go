package mongogate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// A client that leaves while its pipeline is full is noticed, though none of
// its bytes are read. What is at work for it is finished, and nothing else.
func TestClientLeavesFullPipeline(t *testing.T) {
	b := startScript(t)
	g := limiter.New("test", &limiter.Policy{}, limiter.Options{})
	s, addr, _ := serveBehind(t, g, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	for i := range int32(600) {
		write(t, c, msg(i+1, 0, cmd("find")))
	}
	up := b.accept(t)
	expectFrame(t, up, msg(1, 0, cmd("find")))
	c.Close()
	until(t, "the gate knows that the client has gone", func() bool { return g.Status().Labels[0].Abandoned == 1 })
	if n := s.Status().Connections; n != 1 {
		t.Errorf("%d connections while the backend works, want 1", n)
	}
	write(t, up, reply(1, ok()))
	until(t, "the gate forgets the connection", func() bool { return s.Status().Connections == 0 })
	if n, err := up.Read(make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		t.Errorf("the backend read %d bytes, %v; want the end", n, err)
	}
}

// Whether a reply is one of a stream stands in its first bytes. They may come
// late, and in a compressed reply they are only known when the first block is
// there.
func TestStreamOfCutReplies(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	more := bson.D{{Key: "getMore", Value: int64(7)}, {Key: "collection", Value: "orders"}, {Key: "$db", Value: "shop"}}
	noise := make([]byte, 200_000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	batch := append(ok(), bson.E{Key: "pad", Value: noise})
	plain := func(id, to int32, flags uint32) []byte { return frame(id, to, 2013, msgPayload(flags, batch)) }
	packed := func(id, to int32, flags uint32) []byte {
		f := compressed(id, 3, msgPayload(flags, batch))
		binary.LittleEndian.PutUint32(f[8:], uint32(to))
		return f
	}
	var up net.Conn
	for i, build := range []func(id, to int32, flags uint32) []byte{plain, packed} {
		request := int32(10 * (i + 1))
		write(t, c, msg(request, 1<<16, more))
		if up == nil {
			up = b.accept(t)
		}
		readFrame(t, up)
		to := request
		for j := range int32(3) {
			flags := uint32(2)
			if j == 2 {
				flags = 0
			}
			f := build(1000+request+j, to, flags)
			to = 1000 + request + j
			sent := make(chan error, 1)
			go func() {
				_, err := up.Write(f[:17])
				<-time.After(20 * time.Millisecond)
				if err == nil {
					_, err = up.Write(f[17:])
				}
				sent <- err
			}()
			expectFrame(t, c, f)
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
		}
	}
}

// A backend that dies inside a reply, or before all are given, is noticed even
// when its last bytes and the end of the stream come as one.
func TestBackendDiesInReply(t *testing.T) {
	answer := reply(1, append(ok(), bson.E{Key: "pad", Value: make([]byte, 8000)}))
	for name, last := range map[string][]byte{
		"inside a short reply": reply(1, ok())[:30], "inside a long reply": answer[:6000], "before the second reply": reply(1, ok()),
	} {
		t.Run(name, func(t *testing.T) {
			b := startScript(t)
			_, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
			c := dial(t, addr)
			write(t, c, append(msg(1, 0, cmd("find")), msg(2, 0, cmd("find"))...))
			up := b.accept(t).(*net.TCPConn)
			readFrame(t, up)
			cork(t, up)
			write(t, up, last)
			up.Close()
			if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the client still waits, want its connection closed")
			}
		})
	}
}

// cork makes the last bytes and the end of the stream leave as one segment.
func cork(t *testing.T, c *net.TCPConn) {
	t.Helper()
	raw, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	const tcpCork = 3
	if cerr := raw.Control(func(fd uintptr) { err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpCork, 1) }); cerr != nil || err != nil {
		t.Skip("no TCP_CORK here")
	}
}

// Names that no server accepts make no long keys: what clients send is not
// kept at its full length.
func TestKeysAreBounded(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	if got := len(mongogate.PartitionKey([]string{"database", "collection", "command"}, msg(1, 0, bson.D{{Key: long, Value: long}, {Key: "$db", Value: long}}))); got > 800 {
		t.Errorf("key of %d bytes, want at most 800", got)
	}
	if got := len(mongogate.ReadUser(doc(bson.D{{Key: "user", Value: long}}), long)); got > 300 {
		t.Errorf("user of %d bytes, want at most 300", got)
	}
}

// A drain does not wait for cursors that were killed or that the backend does
// not know any more.
func TestDrainForgetsDeadCursors(t *testing.T) {
	b := startScript(t)
	s, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	open := bson.D{{Key: "cursor", Value: bson.D{{Key: "firstBatch", Value: bson.A{}}, {Key: "id", Value: int64(77)}, {Key: "ns", Value: "shop.orders"}}}, {Key: "ok", Value: 1.0}}
	gone := bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 43}}
	kill := cmd("killCursors", bson.E{Key: "cursors", Value: bson.A{int64(76), int64(77)}})
	more := bson.D{{Key: "getMore", Value: int64(77)}, {Key: "collection", Value: "orders"}, {Key: "$db", Value: "shop"}}
	var up net.Conn
	id := int32(0)
	exchange := func(request, answer bson.D) {
		id++
		write(t, c, msg(id, 0, request))
		if up == nil {
			up = b.accept(t)
		}
		readFrame(t, up)
		write(t, up, reply(id, answer))
		readFrame(t, c)
	}
	for name, end := range map[string][2]bson.D{"killed": {kill, ok()}, "not found": {more, gone}} {
		exchange(cmd("find"), open)
		if n := s.Status().OpenCursors; n != 1 {
			t.Fatalf("%s: %d open cursors after find, want 1", name, n)
		}
		exchange(end[0], end[1])
		if n := s.Status().OpenCursors; n != 0 {
			t.Errorf("%s: %d open cursors, want 0", name, n)
		}
	}
}

// A handshake that wants no reply gets none, and none is waited for.
func TestHandshakeWithoutReply(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, oneAtATime(), mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, bytes.Join([][]byte{msg(1, 2, cmd("hello")), msg(2, 2, cmd("saslStart")), msg(3, 0, cmd("find"))}, nil))
	up := b.accept(t)
	readFrame(t, up)
	readFrame(t, up)
	readFrame(t, up)
	write(t, up, reply(3, ok()))
	expectFrame(t, c, reply(3, ok()))
}

// Legacy requests are answered in their own opcode, and one that gives cursors
// back is never dropped.
func TestLegacyRefusals(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{Rate: limiter.Rate{PerSecond: 1e-6}}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	c := dial(t, addr)
	write(t, c, msg(1, 2, cmd("insert"))) // the only token
	up := b.accept(t)
	readFrame(t, up)
	more := frame(2, 0, 2005, append(make([]byte, 4), []byte("shop.orders\x00\x00\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00")...))
	write(t, c, more)
	got := readFrame(t, c)
	if op := binary.LittleEndian.Uint32(got[12:]); op != 1 || got[16]&2 == 0 {
		t.Errorf("OP_GET_MORE refused by opcode %d, flags %x; want OP_REPLY with QueryFailure", op, got[16])
	}
	kill := frame(3, 0, 2007, []byte{0, 0, 0, 0, 1, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0})
	write(t, c, kill)
	expectFrame(t, up, kill)
}

// The time that a client takes to send a large command is none of the
// backend's, and says nothing of it.
func TestSlowUploadIsNoLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const work = 40 * time.Millisecond
		limit := &recorder{seen: make(chan time.Duration, 1)}
		sc := stage(t, &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return limit }}}, mongogate.Options{})
		c, _ := sc.enter()
		f := msg(1, 0, cmd("insert"), sequence(bson.D{{Key: "a", Value: make([]byte, 1<<20)}}))
		say(c, f[:100_000])
		up := sc.backend()
		head := make([]byte, 100_000)
		if _, err := io.ReadFull(up, head); err != nil {
			t.Fatal(err)
		}
		time.Sleep(300 * time.Millisecond)
		say(c, f[100_000:])
		rest := make([]byte, len(f)-len(head))
		if _, err := io.ReadFull(up, rest); err != nil || !bytes.Equal(append(head, rest...), f) {
			t.Fatalf("the backend read another command, %v", err)
		}
		time.Sleep(work)
		say(up, reply(1, ok()))
		expectFrame(t, c, reply(1, ok()))
		if got := <-limit.seen; got != work {
			t.Errorf("latency %v, want the backend's %v alone", got, work)
		}
	})
}

// recorder is a limit that tells what it observes.
type recorder struct{ seen chan time.Duration }

func (*recorder) Current() int { return 10 }

func (r *recorder) Observe(_ int64, latency time.Duration, _ int, _ bool) {
	select {
	case r.seen <- latency:
	default:
	}
}

// What a compressed frame was opened into is not held by an idle connection.
func TestIdleCompressedConnectionsAreSmall(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	big := msgPayload(0, append(cmd("find"), bson.E{Key: "pad", Value: make([]byte, 100_000)}))
	request, answer := compressed(1, 2, big), compressed(2, 2, big)
	binary.LittleEndian.PutUint32(answer[8:], 1)
	before := heap()
	const n = 100
	for range n {
		c := dial(t, addr)
		write(t, c, request)
		up := b.accept(t)
		expectFrame(t, up, request)
		write(t, up, answer)
		expectFrame(t, c, answer)
	}
	if held := (heap() - before) / n; held > 48<<10 { // under the race detector pools forget at random
		t.Errorf("%d bytes held by each idle connection, want at most 48 KiB", held)
	}
}

// Sessions that wait in a drain for a cursor of another one leave the processor
// to it.
func TestDrainingSessionsPollSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{})
		reader, _ := sc.enter()
		say(reader, msg(1, 0, cmd("find")))
		up := sc.backend()
		readFrame(t, up)
		say(up, reply(1, opens(7)))
		readFrame(t, reader)

		near, far := net.Pipe()
		counted := &deadlines{Conn: far}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		ended := make(chan struct{})
		go func() { defer close(ended); sc.s.ServeConn(ctx, counted) }()
		time.Sleep(700 * time.Millisecond)
		synctest.Wait()
		if n := counted.set.Load(); n < 2 || n > 10 {
			t.Errorf("%d deadlines set in 0.7 s, want 2 to 10", n)
		}
		_ = near.Close()
		<-ended
	})
}

// deadlines counts the read deadlines that are set.
type deadlines struct {
	net.Conn

	set atomic.Int64
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.set.Add(1)
	return d.Conn.SetReadDeadline(t)
}

// A ledger that is full of what is still in use is not searched for what may be
// forgotten with every command, nor by every connection that a drain asks.
func TestLedgerSweepsSeldom(t *testing.T) {
	if got := mongogate.Sweeps(1000, time.Millisecond); got > 2 {
		t.Errorf("%d sweeps in a second, want at most 2", got)
	}
	if got := mongogate.Sweeps(10, time.Minute); got < 9 {
		t.Errorf("%d sweeps in 10 minutes of one look a minute, want at least 9", got)
	}
}

// An idle connection holds no buffer, even where the gate cannot wait for bytes
// without one, as under TLS.
func TestIdleWrappedConnectionsAreSmall(t *testing.T) {
	b := startScript(t)
	s, _, _ := serve(t, &limiter.Policy{}, mongogate.Options{Backends: []string{b.l.Addr().String()}})
	before := heap()
	const n = 100
	ended := make(chan struct{}, n)
	var near [n]net.Conn
	for i := range n {
		var far net.Conn
		near[i], far = net.Pipe()
		go func() { s.ServeConn(t.Context(), far); ended <- struct{}{} }()
		write(t, near[i], msg(1, 0, cmd("find")))
		up := b.accept(t)
		readFrame(t, up)
		write(t, up, reply(1, ok()))
		expectFrame(t, near[i], reply(1, ok()))
	}
	if held := (heap() - before) / n; held > 28<<10 {
		t.Errorf("%d bytes held by each idle connection, want at most 28 KiB", held)
	}
	for i := range n {
		near[i].Close()
		<-ended
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
