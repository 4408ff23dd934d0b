package h2_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/labels"
)

// bounds of the sessions of these tests, no two alike.
var bounds = h2.Bounds{
	MaxHeader: 8 << 10, HeaderTimeout: 10 * time.Second, IdleTimeout: 90 * time.Second, WriteTimeout: 150 * time.Second, StreamIdle: 60 * time.Second,
}

// maxStreams is how many requests may be in flight on a session of these tests.
const maxStreams = 20

// work is what requests do here, by their path.
type work struct {
	wording h2.Wording
	begun   atomic.Int64 // requests that were admitted
	ended   atomic.Int64
	decided atomic.Int64
	over    atomic.Int64          // contexts of what a handler served
	first   atomic.Pointer[error] // of writing an answer
}

// newWork returns it.
func newWork() *work {
	w := &work{}
	doc := labels.New(labels.RequestRate, "test", "default")
	w.wording.Word(&doc, []labels.Field{{Name: "Retry-After", Waits: true}, {Name: "X-Why", Value: "because"}})
	return w
}

// Takes implements [h2.Visit].
func (*work) Takes(r *http.Request) bool { return r.URL.Path != "/other" }

// Offer implements [h2.Visit].
func (w *work) Offer(a http.ResponseWriter, r *http.Request) bool {
	w.decided.Add(1)
	switch r.URL.Path {
	case "/refused":
		if h2.Refuse(a, &w.wording, 1500, 0, labels.Field{}) { // it has no body
			return true
		}
	case "/bug":
		panic("in a decision")
	}
	w.begun.Add(1)
	return false
}

// Settle implements [h2.Visit].
func (w *work) Settle(ctx context.Context, a http.ResponseWriter, r *http.Request) (cut bool) {
	defer w.ended.Add(1)
	var err error
	switch path, n, _ := strings.Cut(r.URL.Path[1:], "-"); path {
	case "hold":
		<-ctx.Done()
		return true
	case "stubborn": // goes on for a while although nobody waits
		<-ctx.Done()
		time.Sleep(time.Minute)
	case "bytes":
		size, _ := strconv.Atoi(n)
		_, err = a.Write(make([]byte, size))
	case "fields":
		size, _ := strconv.Atoi(n)
		a.Header()["X-Long"] = []string{strings.Repeat("x", size)}
		_, err = io.WriteString(a, "hello")
	case "echo":
		_, err = io.Copy(a, r.Body)
	case "late": // has more to say to who has left
		<-ctx.Done()
		a.WriteHeader(http.StatusEarlyHints)
		_, err = r.Body.Read(make([]byte, 1))
	case "panic":
		panic("in an answer")
	default:
		_, err = io.WriteString(a, "hello")
	}
	if err != nil {
		w.first.CompareAndSwap(nil, &err)
	}
	return err != nil
}

// ServeHTTP implements [http.Handler].
func (w *work) ServeHTTP(a http.ResponseWriter, r *http.Request) {
	context.AfterFunc(r.Context(), func() { w.over.Add(1) })
	a.WriteHeader(http.StatusTeapot)
}

// said is what came of a stream.
type said struct {
	status string
	fields http.Header
	body   int
	ended  bool
	reset  http2.ErrCode
	wasSet bool // reset was
}

// client speaks HTTP/2 by hand.
type client struct {
	net.Conn
	t    *testing.T
	w    *work
	s    *h2.Server
	over chan struct{} // the session has ended

	framer *http2.Framer
	block  bytes.Buffer
	enc    *hpack.Encoder

	mu     sync.Mutex // guards the fields below
	of     map[uint32]*said
	away   []http2.GoAwayFrame
	pings  [][8]byte
	grants map[uint32]int
	end    error
	writes int
}

// counted counts the writes of the gate.
type counted struct {
	net.Conn
	c *client
}

// Write implements net.Conn.
func (c counted) Write(p []byte) (int, error) {
	c.c.mu.Lock()
	c.c.writes++
	c.c.mu.Unlock()
	return c.Conn.Write(p)
}

// begin begins a session over a pipe, and says the preface unless raw is set. It runs in
// a bubble.
func begin(t *testing.T, raw bool, settings ...http2.Setting) *client {
	t.Helper()
	here, there := net.Pipe()
	c := &client{Conn: here, t: t, w: newWork(), over: make(chan struct{}), of: map[uint32]*said{}, grants: map[uint32]int{}}
	c.s = h2.New(h2.Options{
		Name: "test", Log: slog.New(slog.DiscardHandler), Streams: maxStreams, Visit: func() h2.Handler { return c.w }, Handler: c.w,
	}, bounds)
	session := c.s.Begin(counted{there, c}, nil, nil)
	go func() { defer close(c.over); session.Run() }()
	c.framer = http2.NewFramer(here, nil)
	c.fresh()
	t.Cleanup(func() { _ = here.Close(); <-c.over })
	if !raw {
		go c.listen()
		c.raw([]byte(http2.ClientPreface))
		_ = c.framer.WriteSettings(settings...)
		synctest.Wait()
	}
	return c
}

// listen notes what comes.
func (c *client) listen() {
	framer := http2.NewFramer(io.Discard, c.Conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	for {
		f, err := framer.ReadFrame()
		c.mu.Lock()
		if err != nil {
			c.end = err
			c.mu.Unlock()
			return
		}
		c.note(f)
		c.mu.Unlock()
	}
}

// note notes a frame.
func (c *client) note(f http2.Frame) {
	id := f.Header().StreamID
	s := c.of[id]
	if s == nil {
		s = &said{}
		c.of[id] = s
	}
	switch f := f.(type) {
	case *http2.MetaHeadersFrame:
		if status := f.PseudoValue("status"); status != "" {
			s.status = status
		}
		s.fields = http.Header{}
		for _, h := range f.RegularFields() {
			s.fields.Add(h.Name, h.Value)
		}
		s.ended = f.StreamEnded()
	case *http2.DataFrame:
		s.body += len(f.Data())
		s.ended = f.StreamEnded()
	case *http2.RSTStreamFrame:
		s.reset, s.wasSet = f.ErrCode, true
	case *http2.GoAwayFrame:
		c.away = append(c.away, *f)
	case *http2.PingFrame:
		c.pings = append(c.pings, f.Data)
	case *http2.WindowUpdateFrame:
		c.grants[id] += int(f.Increment)
	}
}

// fresh has the client refer to no field that it has sent.
func (c *client) fresh() { c.enc = hpack.NewEncoder(&c.block) }

// raw writes bytes.
func (c *client) raw(b []byte) { _, _ = c.Write(b) }

// encode encodes fields, in pairs.
func (c *client) encode(pairs ...string) []byte {
	c.block.Reset()
	for i := 0; i < len(pairs); i += 2 {
		_ = c.enc.WriteField(hpack.HeaderField{Name: pairs[i], Value: pairs[i+1]})
	}
	return bytes.Clone(c.block.Bytes())
}

// ask sends a request, with a body to come if method is POST.
func (c *client) ask(id uint32, method, path string, more ...string) error {
	block := c.encode(append([]string{":method", method, ":scheme", "http", ":authority", "a", ":path", path}, more...)...)
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true, EndStream: method != http.MethodPost})
}

// got waits until all is quiet, and returns what came of a stream.
func (c *client) got(id uint32) said {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.of[id]; s != nil {
		return *s
	}
	return said{}
}

// hear waits until all is quiet, and answers the latest ping.
func (c *client) hear() {
	synctest.Wait()
	c.mu.Lock()
	pings := c.pings
	c.mu.Unlock()
	if len(pings) == 0 {
		c.t.Fatal("there was no ping")
	}
	_ = c.framer.WritePing(true, pings[len(pings)-1])
}

// lastAway waits until all is quiet, and returns how the client was told to go; nil = it
// was not.
func (c *client) lastAway() *http2.GoAwayFrame {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.away) == 0 {
		return nil
	}
	return &c.away[len(c.away)-1]
}

// wantAway fails the test unless the session ended for a reason.
func (c *client) wantAway(code http2.ErrCode) {
	c.t.Helper()
	if away := c.lastAway(); away == nil || away.ErrCode != code {
		c.t.Errorf("GOAWAY %+v, want one for %v", away, code)
	}
}

// well fails the test unless another request is served.
func (c *client) well(id uint32) {
	c.t.Helper()
	_ = c.ask(id, http.MethodGet, "/")
	if got := c.got(id); got.status != "200" || got.body != len("hello") || !got.ended {
		c.t.Errorf("another request is answered %+v, want hello", got)
	}
}

// Requests that come together and are refused are answered together, by whoever
// reads them: no request has begun, and what was said while the client did not listen
// arrives in few writes.
func TestRefusedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, true)
		c.hello()
		var all bytes.Buffer
		c.framer = http2.NewFramer(&all, nil)
		const last = 159
		for id := uint32(1); id <= last; id += 2 {
			_ = c.ask(id, http.MethodGet, "/refused")
		}
		c.raw(all.Bytes())
		synctest.Wait()
		go c.listen()
		for id := uint32(1); id <= last; id += 2 {
			got := c.got(id)
			if got.status != "429" || !got.ended || got.fields.Get("Retry-After") != "2" || got.fields.Get("X-Why") != "because" ||
				got.fields.Get("Content-Length") != strconv.Itoa(got.body) {
				t.Fatalf("stream %d: %+v, want 429 in words", id, got)
			}
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.writes > 5 {
			t.Errorf("%d writes for 80 refusals", c.writes)
		}
		if n := c.w.begun.Load(); n != 0 {
			t.Errorf("%d requests have begun", n)
		}
	})
}

// A refusal for which the client has no room waits for it, and neither the session nor
// other requests do.
func TestRefusedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10})
		_ = c.ask(1, http.MethodGet, "/refused")
		if got := c.got(1); got.status != "429" || got.body != 10 || got.ended {
			t.Fatalf("%+v, want the beginning of a refusal", got)
		}
		c.well(3)
		_ = c.framer.WriteWindowUpdate(1, 1000)
		if got := c.got(1); !got.ended || got.fields.Get("Content-Length") != strconv.Itoa(got.body) {
			t.Errorf("%+v, want all of it", got)
		}
	})
}

// A panic in an answer ends its stream, and one in a decision its session; nobody
// else notices.
func TestPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodGet, "/panic")
		if got := c.got(1); got.reset != http2.ErrCodeInternal {
			t.Errorf("%+v, want INTERNAL_ERROR", got)
		}
		c.well(3)
		_ = c.ask(5, http.MethodGet, "/bug")
		<-c.over
	})
}

// Whoever leaves is not waited for: by a reset, or with the session.
func TestDeparture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for id := uint32(1); id < 7; id += 2 {
			_ = c.ask(id, http.MethodGet, "/hold")
		}
		_ = c.framer.WriteRSTStream(3, http2.ErrCodeCancel)
		synctest.Wait()
		if n := c.w.ended.Load(); n != 1 {
			t.Errorf("%d requests have ended, want 1", n)
		}
		if got := c.got(3); got.wasSet {
			t.Errorf("%+v, want nothing said to who has left", got)
		}
		_ = c.Close()
		<-c.over
		if n := c.w.ended.Load(); n != 3 {
			t.Errorf("%d requests have ended, want 3", n)
		}
	})
}

// The context of a request that a handler serves ends with it, as net/http has it:
// what was derived from it, with a goroutine perhaps, would stay otherwise.
func TestContextOfHandlerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodGet, "/other")
		if got := c.got(1); got.status != "418" || c.w.over.Load() != 1 {
			t.Errorf("%+v, and %d contexts have ended, want 1", got, c.w.over.Load())
		}
	})
}

// To who has reset a stream nothing is said on it, neither hints nor that the body may
// come: some clients take that for an error of the session.
func TestNothingSaidToTheGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodPost, "/late", "expect", "100-continue")
		synctest.Wait()
		_ = c.framer.WriteRSTStream(1, http2.ErrCodeCancel)
		if got := c.got(1); got.status != "" {
			t.Errorf("%s was said on a stream that was reset", got.status)
		}
		c.well(3)
	})
}

// A body comes back as it was sent, window for window, and what is not read holds the
// client back.
func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1<<31 - 1})
		_ = c.framer.WriteWindowUpdate(0, 1<<30)
		_ = c.ask(1, http.MethodPost, "/echo")
		const frames = 1000
		for range frames {
			_ = c.framer.WriteDataPadded(1, false, make([]byte, 10_000), make([]byte, 100))
			synctest.Wait() // it is read, and granted anew
		}
		_ = c.framer.WriteData(1, true, nil)
		if got := c.got(1); got.body != frames*10_000 || !got.ended {
			t.Errorf("%+v, want %d bytes", got, frames*10_000)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		if sent := frames * 10_101; c.grants[0] > sent+2<<20 || c.grants[0] < sent || c.grants[1] > frames*10_000 {
			t.Errorf("granted %v for %d bytes", c.grants, sent)
		}
	})
}

// Windows that are moved under an answer, and below nothing, hold.
func TestWindowsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 100})
		_ = c.ask(1, http.MethodGet, "/bytes-1000")
		if got := c.got(1); got.body != 100 {
			t.Fatalf("%d bytes came, want 100", got.body)
		}
		set := func(v uint32) { _ = c.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: v}) }
		set(0) // 100 too many were sent
		_ = c.framer.WriteWindowUpdate(1, 50)
		if got := c.got(1); got.body != 100 {
			t.Fatalf("%d bytes came, want 100 still", got.body)
		}
		_ = c.framer.WriteWindowUpdate(1, 60)
		if got := c.got(1); got.body != 110 {
			t.Fatalf("%d bytes came, want 110", got.body)
		}
		set(5000)
		if got := c.got(1); got.body != 1000 || !got.ended {
			t.Fatalf("%+v, want 1000 bytes", got)
		}
		_ = c.framer.WriteWindowUpdate(0, 1<<31-1)
		c.wantAway(http2.ErrCodeFlowControl)
	})
}

// Fields that take more than a frame come whole, the first time and the next.
func TestLongHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for i, size := range []int{16 << 10, 100_000, 33_000, 16<<10 - 100} {
			id := uint32(2*i + 1)
			_ = c.ask(id, http.MethodGet, "/fields-"+strconv.Itoa(size))
			if got := c.got(id); len(got.fields.Get("X-Long")) != size || got.body != len("hello") || !got.ended {
				t.Errorf("%d bytes of a field and %d of the body, want %d and 5", len(got.fields.Get("X-Long")), got.body, size)
			}
		}
	})
}

// An answer that nobody takes fails at its deadline, and no other does.
func TestAnswerNobodyTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5})
		_ = c.ask(1, http.MethodGet, "/bytes-1000")
		time.Sleep(bounds.WriteTimeout - time.Millisecond)
		if got := c.got(1); got.wasSet {
			t.Fatal("reset before its time")
		}
		time.Sleep(2 * time.Millisecond)
		if got := c.got(1); got.reset != http2.ErrCodeInternal || !got.wasSet {
			t.Errorf("%+v, want the stream reset", got)
		}
		if err := *c.w.first.Load(); !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
			t.Errorf("the answer failed with %v", err)
		}
		c.well(3)
	})
}
