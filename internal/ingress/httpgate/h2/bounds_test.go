package h2_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
)

// Clients that make nothing but work are told to be calm, whatever the frame. Each of
// these was, in some server, a way to take it down with one connection.
func TestCalm(t *testing.T) {
	for name, again := range map[string]func(c *client, i int) error{
		"SETTINGS":      func(c *client, _ int) error { return c.framer.WriteSettings() },
		"PING":          func(c *client, _ int) error { return c.framer.WritePing(false, [8]byte{}) },
		"PRIORITY":      func(c *client, _ int) error { return c.framer.WritePriority(99, http2.PriorityParam{}) },
		"WINDOW_UPDATE": func(c *client, _ int) error { return c.framer.WriteWindowUpdate(0, 1) },
		"unknown":       func(c *client, _ int) error { return c.framer.WriteRawFrame(0xfa, 0, 0, nil) },
		"empty DATA":    func(c *client, _ int) error { return c.framer.WriteData(1, false, nil) },
		"rapid reset": func(c *client, i int) error {
			id := uint32(2*i + 3)
			_ = c.ask(id, http.MethodGet, "/hold")
			return c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		},
		"fields of what is over": func(c *client, i int) error {
			if i == 0 {
				return c.ask(5, http.MethodGet, "/hold")
			}
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode("x", "y"), EndHeaders: true, EndStream: true})
		},
		"too long": func(c *client, i int) error { // each is read, and answered 431
			return c.ask(uint32(2*i+3), http.MethodGet, "/", "x", strings.Repeat("x", bounds.MaxHeader+400))
		},
		"malformed": func(c *client, i int) error {
			return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: uint32(2*i + 3), BlockFragment: c.encode("x", "y"), EndHeaders: true, EndStream: true})
		},
		"CONTINUATION": func(c *client, i int) error {
			if i == 0 {
				return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 3, BlockFragment: c.encode(":method", "GET")})
			}
			return c.framer.WriteContinuation(3, false, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, false)
				_ = c.ask(1, http.MethodPost, "/hold")
				const most = 200_000
				n := 0
				for ; n < most && again(c, n) == nil; n++ {
				}
				if c.wantAway(http2.ErrCodeEnhanceYourCalm); n == most || n < 100 {
					t.Errorf("ended after %d frames", n)
				}
				_ = c.Close()
				<-c.over
				if c.w.begun.Load() != c.w.ended.Load() {
					t.Errorf("%d requests have begun and %d ended", c.w.begun.Load(), c.w.ended.Load())
				}
			})
		})
	}
}

// Fields of one name, of which each may be one byte on the wire, cost what they count:
// a copy of all before with each would be gigabytes for a request of a few KiB.
func TestManyOfOneName(t *testing.T) {
	for _, name := range []string{"x", "cookie"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, false)
				more := bounds
				more.MaxHeader = 1 << 20
				c.s.Apply(more)
				fields := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
				for range 10_000 {
					fields = append(fields, name, "0123456789012345678901234567890123456789")
				}
				block := c.encode(fields...)
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block, EndHeaders: true, EndStream: true})
				if got := c.got(1); got.status != "200" {
					t.Errorf("%+v, want 200", got)
				}
				runtime.ReadMemStats(&after)
				if n := after.TotalAlloc - before.TotalAlloc; n > 32<<20 {
					t.Errorf("%d MiB were allocated for %d bytes", n>>20, len(block))
				}
			})
		})
	}
}

// Clients that do the same, but for a reason, are not.
func TestCalmIsEarned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for i := range 8_000 { // more than patience lasts for
			id := uint32(2*i + 1)
			_ = c.framer.WritePing(false, [8]byte{})
			if err := c.ask(id, http.MethodGet, "/"); err != nil {
				t.Fatalf("ended after %d requests: %v", i, err)
			}
			_ = c.framer.WriteWindowUpdate(0, uint32(len("hello")))
			synctest.Wait()
		}
		c.well(50_001)
	})
}

// Requests whose streams were reset go on for a while, and count: there are never
// more than twice as many as streams.
func TestWorkOfTheReset(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for id := uint32(1); id < 200; id += 2 {
			_ = c.ask(id, http.MethodGet, "/stubborn")
			synctest.Wait()
			_ = c.framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		synctest.Wait()
		if n := c.w.begun.Load(); n != 2*maxStreams {
			t.Errorf("%d requests have begun, want %d", n, 2*maxStreams)
		}
		if got := c.got(199); got.reset != http2.ErrCodeRefusedStream {
			t.Errorf("%+v, want REFUSED_STREAM", got)
		}
		time.Sleep(time.Minute + time.Second)
		c.well(201)
	})
}

// No more streams than were granted.
func TestTooManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		for i := range uint32(maxStreams + 1) {
			_ = c.ask(2*i+1, http.MethodGet, "/hold")
		}
		if got := c.got(2*maxStreams + 1); got.reset != http2.ErrCodeRefusedStream {
			t.Errorf("%+v, want REFUSED_STREAM", got)
		}
		if n := c.w.begun.Load(); n != maxStreams {
			t.Errorf("%d requests have begun, want %d", n, maxStreams)
		}
	})
}

// Fields that are too long, as they come or as they are counted, are answered or end
// the session, before they take room; what they leave in the tables is right.
func TestLongFields(t *testing.T) {
	request := []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/"}
	t.Run("one field", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, false)
			_ = c.ask(1, http.MethodGet, "/", "x", strings.Repeat("x", bounds.MaxHeader+400))
			if got := c.got(1); got.status != "431" || !got.ended {
				t.Errorf("%+v, want 431", got)
			}
			c.well(3)
		})
	})
	t.Run("a bomb", func(t *testing.T) { // few bytes that stand for many
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, false)
			more := request
			for range 1000 {
				more = append(more, "x", strings.Repeat("y", 3000))
			}
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(more...), EndHeaders: true, EndStream: true})
			if got := c.got(1); got.status != "431" {
				t.Errorf("%+v, want 431", got)
			}
			c.well(3)
		})
	})
	t.Run("a block without end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := begin(t, false)
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: c.encode(request...)})
			n := 0
			for ; n < 1000 && c.framer.WriteContinuation(1, false, c.encode("x", strings.Repeat("!", 1000+n))) == nil; n++ {
			}
			if c.wantAway(http2.ErrCodeEnhanceYourCalm); n > 40 {
				t.Errorf("%d frames of 1,000 bytes were read", n)
			}
		})
	})
}

// What begins and does not come to its end, ends with the time for it, and what does
// not begin, too.
func TestHalves(t *testing.T) {
	for name, tc := range map[string]struct {
		begin func(c *client)
		after time.Duration
	}{
		"nothing":          {func(*client) {}, bounds.HeaderTimeout},
		"half a preface":   {func(c *client) { c.raw([]byte(http2.ClientPreface[:9])) }, bounds.HeaderTimeout},
		"a preface":        {func(c *client) { c.raw([]byte(http2.ClientPreface)) }, bounds.HeaderTimeout},
		"no request":       {func(c *client) { c.hello() }, bounds.IdleTimeout},
		"half a head":      {func(c *client) { c.hello(); c.raw([]byte{0, 0}) }, bounds.HeaderTimeout},
		"half a frame":     {func(c *client) { c.hello(); c.raw([]byte{0, 0, 8, 6, 0, 0, 0, 0, 0, 1}) }, bounds.HeaderTimeout},
		"half of a fields": {func(c *client) { c.hello(); c.raw([]byte{0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82}) }, bounds.HeaderTimeout},
		"half a body": {func(c *client) {
			c.hello()
			_ = c.ask(1, http.MethodPost, "/hold")
			c.raw([]byte{0, 0, 8, 0, 0, 0, 0, 0, 1, 'x'})
		}, bounds.StreamIdle},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := begin(t, true)
				go func() { _, _ = io.Copy(io.Discard, c.Conn); _ = c.Close() }()
				began := time.Now()
				tc.begin(c)
				<-c.over
				if got := time.Since(began); got != tc.after {
					t.Errorf("ended after %v, want %v", got, tc.after)
				}
			})
		})
	}
}

// hello is how a client begins.
func (c *client) hello() {
	c.raw([]byte(http2.ClientPreface))
	_ = c.framer.WriteSettings()
}

// A session is idle from its last answer on; a ping is no request.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		time.Sleep(bounds.IdleTimeout - time.Second)
		c.well(1)
		for range 8 {
			time.Sleep(11 * time.Second)
			_ = c.framer.WritePing(false, [8]byte{})
		}
		synctest.Wait()
		if c.lastAway() != nil {
			t.Fatal("ended before its time")
		}
		time.Sleep(2 * time.Second)
		if away := c.lastAway(); away == nil || away.ErrCode != http2.ErrCodeNo || away.LastStreamID != 1 {
			t.Errorf("GOAWAY %+v, want one for an idle session", away)
		}
		_ = c.Close()
	})
}

// A request may take as long as it takes: a session with one is not idle.
func TestNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodGet, "/hold")
		time.Sleep(10 * bounds.IdleTimeout)
		c.well(3)
	})
}

// A client that reads nothing is read from until so much is to be said to it, and
// then is given up; requests learn that it has gone.
func TestDeafClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, true)
		began := time.Now()
		go func() {
			c.raw([]byte(http2.ClientPreface)) // the pipe takes this while nobody reads its other end
			_ = c.framer.WriteSettings()
			_ = c.ask(1, http.MethodGet, "/hold")
			var flood bytes.Buffer
			c.framer = http2.NewFramer(&flood, nil)
			for id := uint32(3); id < 20_000; id += 2 {
				_ = c.ask(id, http.MethodHead, "/refused")
			}
			n, _ := c.Write(flood.Bytes())
			if n == flood.Len() {
				t.Error("all of it was read")
			}
		}()
		<-c.over
		if got := time.Since(began); got != bounds.StreamIdle {
			t.Errorf("ended after %v, want %v", got, bounds.StreamIdle)
		}
		if c.w.ended.Load() != 1 {
			t.Error("the request goes on")
		}
	})
}

// In a drain the client is told to go, what it asks until it knows is served, and what
// is in flight comes to its end.
func TestRetire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1})
		_ = c.ask(1, http.MethodGet, "/bytes-10")
		synctest.Wait()
		c.s.Rest()
		if away := c.lastAway(); away == nil || away.LastStreamID != 1<<31-1 || away.ErrCode != http2.ErrCodeNo {
			t.Fatalf("GOAWAY %+v, want one that takes everything", away)
		}
		_ = c.ask(3, http.MethodHead, "/")
		if got := c.got(3); got.status != "200" {
			t.Errorf("%+v, want what is on its way served", got)
		}
		_ = c.framer.WritePing(true, c.pings[0])
		if away := c.lastAway(); away.LastStreamID != 3 {
			t.Errorf("GOAWAY %+v, want one behind stream 3", away)
		}
		_ = c.ask(5, http.MethodPost, "/")
		_ = c.framer.WriteData(5, true, make([]byte, 100))
		if got := c.got(5); got.status != "" || got.wasSet {
			t.Errorf("%+v, want nothing said to what comes too late", got)
		}
		_ = c.framer.WriteWindowUpdate(1, 100)
		if got := c.got(1); got.body != 10 || !got.ended {
			t.Errorf("%+v, want the answer whole", got)
		}
		if n := c.s.Finish(t.Context()); n != 0 {
			t.Errorf("%d requests were cut off", n)
		}
		synctest.Wait() // the client has heard of it
		if !errors.Is(c.end, io.EOF) {
			t.Errorf("ended with %v", c.end)
		}
	})
}

// A refusal to a stream that has no window is a reset, and holds nothing. Each once
// held a goroutine and a stream until its deadline.
func TestRefusedWithoutAnyRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		for i := range uint32(100) {
			_ = c.ask(2*i+1, http.MethodGet, "/refused")
			if got := c.got(2*i + 1); got.reset != http2.ErrCodeRefusedStream || got.status != "" {
				t.Fatalf("%+v, want REFUSED_STREAM", got)
			}
		}
		if n := c.w.decided.Load(); n != 100 {
			t.Errorf("%d requests were decided about, want 100", n)
		}
		if n := h2.Stalled(); n != 0 {
			t.Errorf("%d streams are stalled, want none", n)
		}
		_ = c.ask(201, http.MethodHead, "/refused")
		if got := c.got(201); got.status != "429" || !got.ended {
			t.Errorf("%+v, want a refusal that needs no window", got)
		}
	})
}

// Answers that their client does not take were bounded by connections alone: 11 MiB
// for each. Of a session few may be stalled, and more only while it takes something.
func TestStalledStreamsOfASession(t *testing.T) {
	const most = maxStreams / 8
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
		ask := func(from uint32) {
			for id := from; id < from+10; id += 2 {
				_ = c.ask(id, http.MethodGet, "/bytes-1000")
			}
			synctest.Wait()
		}
		cut := func(from uint32) (n int) {
			for id := from; id < from+10; id += 2 {
				if got := c.got(id); got.wasSet && got.reset == http2.ErrCodeEnhanceYourCalm {
					n++
				}
			}
			return n
		}
		ask(1)
		time.Sleep(time.Second - time.Millisecond)
		if n := cut(1); n != 0 || h2.Stalled() != 5 {
			t.Errorf("%d streams were cut off within the second, and %d are stalled; want none and 5", n, h2.Stalled())
		}
		_ = c.framer.WriteWindowUpdate(1, 1) // something is taken
		time.Sleep(time.Second - time.Millisecond)
		if n := cut(1); n != 0 {
			t.Errorf("%d streams of a session that takes something were cut off", n)
		}
		time.Sleep(time.Second + 2*time.Millisecond)
		// The one that took something has given its place away meanwhile.
		if n := cut(1); n != 6-most || h2.Stalled() != most-1 {
			t.Errorf("%d streams were cut off, and %d are stalled; want %d and %d", n, h2.Stalled(), 6-most, most-1)
		}
	})
}

// The streams of all sessions are bounded too: beyond the first bound a session may
// have more than one only while it takes something, and beyond the second one at most.
func TestStalledStreamsOfAll(t *testing.T) {
	for name, tc := range map[string]struct {
		most, hard int64
		after      time.Duration
		left       int64 // stalled streams of two sessions that would have two each
	}{
		"few":           {most: 10, hard: 20, after: 2 * time.Second, left: 4},
		"many, a while": {most: 2, hard: 20, left: 4},
		"many":          {most: 2, hard: 20, after: time.Second + time.Millisecond, left: 3},
		"too many":      {most: 2, hard: 2, left: 3},
	} {
		t.Run(name, func(t *testing.T) {
			h2.BoundStalled(t, tc.most, tc.hard)
			synctest.Test(t, func(t *testing.T) {
				for range 2 {
					c := begin(t, false, http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0})
					_ = c.ask(1, http.MethodGet, "/bytes-1000")
					_ = c.ask(3, http.MethodGet, "/bytes-1000")
					synctest.Wait()
				}
				time.Sleep(tc.after)
				synctest.Wait()
				if n := h2.Stalled(); n != tc.left {
					t.Errorf("%d streams are stalled, want %d", n, tc.left)
				}
			})
		})
	}
}

// A client whose uploads were answered early goes on to send them, long after the gate
// has forgotten them: no session ends for that, and no window is lost. What it sends
// on a stream that it has ended itself is another thing.
func TestBodiesOfTheForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		const most = 500
		for i := range uint32(most) {
			_ = c.ask(2*i+1, http.MethodPost, "/")
			c.hear()
			if got := c.got(2*i + 1); got.status != "200" || got.reset != http2.ErrCodeNo || !got.wasSet {
				t.Fatalf("stream %d: %+v, want an answer before the body", i, got)
			}
		}
		c.mu.Lock()
		before := c.grants[0]
		c.mu.Unlock()
		for i := range uint32(most) {
			for range 5 {
				_ = c.framer.WriteData(2*i+1, false, make([]byte, 1000))
			}
			_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, BlockFragment: c.encode("x-sum", "1"), EndHeaders: true, EndStream: true})
			synctest.Wait()
		}
		c.well(2*most + 1)
		c.mu.Lock()
		granted := c.grants[0] - before
		c.mu.Unlock()
		if granted < most*5*1000-1<<20 {
			t.Errorf("%d bytes were granted anew of %d", granted, most*5*1000)
		}
		_ = c.framer.WriteData(2*most+1, true, []byte("x"))
		if got := c.got(2*most + 1); got.reset != http2.ErrCodeStreamClosed {
			t.Errorf("%+v, want STREAM_CLOSED", got)
		}
		_ = c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 5, BlockFragment: c.encode(":method", "GET"), EndHeaders: true, EndStream: true})
		c.wantAway(http2.ErrCodeProtocol)
	})
}

// A long answer to a client that gives windows back a few KiB at a time, to the stream and to
// the session, as Go's does, comes whole.
func TestSmallGrants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		const size, grant = 32 << 20, 4 << 10
		_ = c.ask(1, http.MethodGet, "/bytes-"+strconv.Itoa(size))
		for taken := 0; taken < size; {
			got := c.got(1)
			if c.lastAway() != nil {
				t.Fatalf("GOAWAY after %d bytes", got.body)
			}
			for ; taken < got.body; taken += grant {
				_ = c.framer.WriteWindowUpdate(0, grant)
				_ = c.framer.WriteWindowUpdate(1, grant)
			}
		}
	})
}

// Padding comes out of the windows too, and goes back.
func TestPadding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := begin(t, false)
		_ = c.ask(1, http.MethodPost, "/echo")
		const frames = 10_000
		for range frames {
			_ = c.framer.WriteDataPadded(1, false, []byte("x"), make([]byte, 255))
			_ = c.framer.WriteWindowUpdate(0, 1)
			_ = c.framer.WriteWindowUpdate(1, 1)
			synctest.Wait()
		}
		_ = c.framer.WriteData(1, true, nil)
		if got := c.got(1); got.body != frames || !got.ended {
			t.Errorf("%+v, want %d bytes", got, frames)
		}
	})
}
