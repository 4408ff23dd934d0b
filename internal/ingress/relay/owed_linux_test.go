package relay_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// A side with half a message in hand stays awake: what it has would be lost, or
// be kept in a buffer that nobody has.
func TestHalfAQuestionKeepsAwake(t *testing.T) {
	h := dorm(t, relay.Options{Patience: 1600 * time.Millisecond}) // a look every 100 ms, of which 16 end the session
	client, backend, ended := h.asked()
	q := toyMessage('q', bytes.Repeat([]byte("x"), 100))
	_, _ = client.Write(q[:50])
	h.asleep(1)
	for from := h.relay.Looks(); h.relay.Looks() < from+3; time.Sleep(time.Millisecond) {
		if n := h.relay.Asleep(); n != 1 {
			t.Fatalf("%d sides sleep with half a question in hand, want the backend's", n)
		}
	}
	_, _ = client.Write(q[50:])
	if got := hear(t, backend); !bytes.Equal(got, q) {
		t.Errorf("the backend heard %q", got)
	}
	say(backend, toyMessage('a', nil))
	hear(t, client)
	h.asleep(2)
	_ = client.Close()
	<-ended
	h.over()
}

// An event that came for a sleep that is over woke the next one. Nothing could be
// read then, and the side stayed awake until its peer spoke.
func TestWokenForAnotherSleep(t *testing.T) {
	h := dorm(t, relay.Options{})
	client, _, ended := h.asked()
	h.relay.WakeLate()
	if n := h.relay.Asleep(); n != 2 {
		t.Errorf("%d sides sleep after a late event, want 2", n)
	}
	_ = client.Close()
	<-ended
	h.over()
}

// owed is a session that sleeps while the backend is at work on a question.
func (d *idleSessions) owed() (client, backend net.Conn, ended <-chan error) {
	d.t.Helper()
	client, ended = d.sleepy(&toy{})
	say(client, toyMessage('q', nil))
	backend = d.backend()
	hear(d.t, backend)
	d.asleep(2)
	if d.free() {
		d.t.Error("a permit is free while the backend works and both sides sleep")
	}
	return client, backend, ended
}

// works fails unless the session goes on, and its permit is held.
func (d *idleSessions) works(ended <-chan error) {
	d.t.Helper()
	select {
	case err := <-ended:
		d.t.Fatalf("the session ended with %v before the backend answered", err)
	default:
	}
	if d.free() {
		d.t.Error("a permit is free before the backend answered")
	}
}

// abandoned waits until the gate knows that the client has gone.
func (d *idleSessions) abandoned() {
	d.t.Helper()
	d.until("the question is abandoned", func() bool { return d.gate.Status().Labels[0].Abandoned == 1 })
}

// What ends a session while an answer is owed and both sides sleep ends it as if
// they were awake: the permit is held as long as the backend works, and no longer.
func TestWhatHappensWhileOwed(t *testing.T) {
	cases := map[string]struct {
		options relay.Options
		happens func(t *testing.T, h *idleSessions, client, backend net.Conn, ended <-chan error)
		want    error
	}{
		"the client leaves": {
			happens: func(_ *testing.T, h *idleSessions, client, backend net.Conn, ended <-chan error) {
				_ = client.Close()
				h.abandoned()
				h.works(ended)
				say(backend, toyMessage('a', make([]byte, 100)))
			}, want: io.EOF,
		},
		"the client leaves, and the backend is told": {
			options: relay.Options{Cancel: true},
			happens: func(t *testing.T, _ *idleSessions, client, backend net.Conn, _ <-chan error) {
				t.Helper()
				_ = client.Close()
				if _, err := listenTo(backend); !errors.Is(err, io.EOF) {
					t.Errorf("the backend read %v, want EOF", err)
				}
			}, want: io.EOF,
		},
		"a drain": {
			happens: func(t *testing.T, h *idleSessions, client, backend net.Conn, ended <-chan error) {
				t.Helper()
				h.drain()
				h.asleep(0)
				h.works(ended)
				say(backend, toyMessage('a', nil))
				if got := hear(t, client); got[0] != 'a' {
					t.Errorf("the client heard %q", got)
				}
			}, want: relay.ErrDrained,
		},
		"the server cuts what a drain left": {
			happens: func(_ *testing.T, h *idleSessions, client, backend net.Conn, ended <-chan error) {
				h.drain()
				h.cut(client)
				h.abandoned()
				h.works(ended)
				say(backend, toyMessage('a', nil))
			}, want: net.ErrClosed,
		},
		"the backend leaves": {
			happens: func(_ *testing.T, _ *idleSessions, _, backend net.Conn, _ <-chan error) { _ = backend.Close() },
			want:    relay.ErrBackendGone,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			h := dorm(t, tc.options)
			client, backend, ended := h.owed()
			tc.happens(t, h, client, backend, ended)
			if err := <-ended; !errors.Is(err, tc.want) {
				t.Errorf("the session ended with %v, want %v", err, tc.want)
			}
			h.over()
		})
	}
}

// cut closes the gate's end of a client's connection, as a server does when a
// drain has taken too long.
func (d *idleSessions) cut(client net.Conn) {
	d.sockets.mu.Lock()
	defer d.sockets.mu.Unlock()
	for _, c := range d.sockets.ours {
		if c.LocalAddr().String() == client.RemoteAddr().String() {
			_ = c.Close()
		}
	}
}
