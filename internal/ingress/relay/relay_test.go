package relay_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// What a client sends in one go is taken in turn: the second question is not
// forwarded, and holds nothing, before the first is answered.
func TestQuestionsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, _ := h.enter(&toy{})
		first, second, note := toyMessage('q', []byte("1")), toyMessage('q', []byte("2")), toyMessage('n', []byte("3"))
		say(c, bytes.Join([][]byte{first, second, note}, nil))
		b := h.backend()
		if got := hear(t, b); !bytes.Equal(got, first) {
			t.Fatalf("backend read %q, want %q", got, first)
		}
		synctest.Wait()
		say(b, toyMessage('a', []byte("1")))
		if got := hear(t, c); string(got[5:]) != "1" {
			t.Fatalf("client read %q, want the first answer", got)
		}
		if got := hear(t, b); !bytes.Equal(got, second) {
			t.Fatalf("backend read %q, want %q", got, second)
		}
		say(b, toyMessage('a', []byte("2")))
		hear(t, c)
		if got := hear(t, b); !bytes.Equal(got, note) {
			t.Fatalf("backend read %q, want %q", got, note)
		}
	})
}

// Messages of any size pass unchanged in both directions, however they are cut.
func TestAnySizePasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, _ := h.enter(&toy{need: 9})
		var b net.Conn
		for i, size := range []int{0, 1, 4, 5, 1000, 32<<10 - 5, 32<<10 - 4, 40 << 10, 256<<10 - 5, 300 << 10, 2 << 20} {
			body := make([]byte, size)
			for j := range body {
				body[j] = byte(i + j*7)
			}
			question, answer := toyMessage('q', body), toyMessage('a', body)
			go func() {
				for part := range 1 + size/7000 {
					_, _ = c.Write(question[len(question)*part/(1+size/7000) : len(question)*(part+1)/(1+size/7000)])
				}
			}()
			if b == nil {
				b = h.backend()
			}
			if got := hear(t, b); !bytes.Equal(got, question) {
				t.Fatalf("question of %d bytes came as %d others", size, len(got))
			}
			say(b, append(toyMessage('i', nil), answer...))
			if got := hear(t, c); got[0] != 'i' {
				t.Fatalf("client read kind %c, want what the backend said in between", got[0])
			}
			if got := hear(t, c); !bytes.Equal(got, answer) {
				t.Fatalf("answer of %d bytes came as %d others", size, len(got))
			}
		}
	})
}

// A client that does not read its answer held every permit that it could get for
// what it sent behind it, for ever. Now what waits behind holds none, and the
// connection ends.
func TestUnreadAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, ended := h.enter(&toy{need: 9})
		say(c, bytes.Repeat(toyMessage('q', []byte("....")), 12))
		b := h.backend()
		hear(t, b)
		began := time.Now()
		say(b, toyMessage('a', make([]byte, 1<<20)))
		synctest.Wait()
		if !h.free() {
			t.Error("no permit is free while the answer is not read, want one")
		}
		err := <-ended
		if took := time.Since(began); !errors.Is(err, relay.ErrStalled) || took < relay.DefaultPatience || took > relay.DefaultPatience+3*time.Second {
			t.Errorf("ended after %v: %v; want stalled after %v", took, err, relay.DefaultPatience)
		}
	})
}

// A client that sends a byte every five seconds held its permit for ever,
// because every byte renewed the bound. One that is slow, and faster than 64
// KiB a second, is not cut.
func TestSlowUploads(t *testing.T) {
	for name, tc := range map[string]struct {
		part  int
		every time.Duration
		cut   bool
	}{
		"drips": {1, 5 * time.Second, true}, "drips faster": {1, 900 * time.Millisecond, true}, "slow": {70 << 10, time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				c, ended := h.enter(&toy{need: 9})
				question := toyMessage('q', make([]byte, 4<<20))
				sent := make(chan struct{})
				go func() {
					defer close(sent)
					for at := 0; at < len(question); {
						n := min(tc.part, len(question)-at)
						if at == 0 {
							n = 100 << 10
						}
						if _, err := c.Write(question[at : at+n]); err != nil {
							return
						}
						at += n
						time.Sleep(tc.every)
					}
				}()
				b := h.backend()
				n, _ := io.Copy(io.Discard, io.LimitReader(b, int64(len(question))))
				if whole := n == int64(len(question)); whole == tc.cut {
					t.Fatalf("%d of %d bytes came, cut is to be %v", n, len(question), tc.cut)
				}
				if tc.cut {
					if err := <-ended; !errors.Is(err, relay.ErrStalled) {
						t.Errorf("ended: %v, want stalled", err)
					}
					if !h.free() {
						t.Error("the permit is held")
					}
				}
				<-sent
			})
		})
	}
}

// A permit stands for work at the backend: when the client leaves it is kept
// until the backend has answered. With Cancel the backend's connection is
// closed instead.
func TestClientLeaves(t *testing.T) {
	for name, cancel := range map[string]bool{"finish": false, "cancel": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{Cancel: cancel})
				c, ended := h.enter(&toy{})
				say(c, toyMessage('q', nil))
				b := h.backend()
				hear(t, b)
				_ = c.Close()
				synctest.Wait()
				if cancel {
					<-ended
					if !h.free() {
						t.Error("the permit is held after the backend was cut off")
					}
					return
				}
				time.Sleep(time.Minute)
				if n := h.gate.Status().Labels[0].Abandoned; n != 1 || h.free() {
					t.Errorf("%d permits known to be abandoned while the backend works, want 1 and none free", n)
				}
				say(b, toyMessage('a', make([]byte, 100)))
				<-ended
				if !h.free() {
					t.Error("the permit is held after the backend answered")
				}
			})
		})
	}
}

// A backend that hung up was told as a client that had left: sixty requests of which every
// client waited were abandoned, and callers said to leave.
func TestBackendThatHangsUpIsNotAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, ended := h.enter(&toy{})
		say(c, toyMessage('q', nil))
		b := h.backend()
		hear(t, b)
		_ = b.Close()
		<-ended
		if n := h.gate.Status().Labels[0].Counts; n.Abandoned != 0 || n.Dropped != 1 {
			t.Errorf("%d abandoned and %d dropped, want 0 and 1", n.Abandoned, n.Dropped)
		}
	})
}

// What is finished for nobody is bounded in time, and ends with the backend.
func TestNobodyIsNotWaitedForEver(t *testing.T) {
	for name, tc := range map[string]struct {
		dies  time.Duration
		after time.Duration
	}{
		"silent": {time.Hour, 10 * time.Minute}, "dies": {time.Minute, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				c, ended := h.enter(&toy{})
				say(c, toyMessage('q', nil))
				b := h.backend()
				hear(t, b)
				_ = c.Close()
				began := time.Now()
				dying := time.AfterFunc(tc.dies, func() { _ = b.Close() })
				defer dying.Stop()
				<-ended
				if took := time.Since(began); took != tc.after || !h.free() {
					t.Errorf("ended after %v, permit free: %v; want %v, true", took, h.free(), tc.after)
				}
			})
		})
	}
}

// A drain closes what has nothing to finish, at once or after the answer; what
// the protocol holds open stays until an answer was given.
func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		_, idle := h.enter(&toy{})
		c, asked := h.enter(&toy{})
		say(c, toyMessage('q', nil))
		b := h.backend()
		hear(t, b)
		w, waits := h.enter(&toy{})
		say(w, toyMessage('w', nil))
		hear(t, h.backend())
		k, keeps := h.enter(&toy{busy: true})
		synctest.Wait()
		h.drain()
		for _, ended := range []<-chan error{idle, waits} {
			if err := <-ended; !errors.Is(err, relay.ErrDrained) {
				t.Errorf("ended: %v, want drained", err)
			}
		}
		time.Sleep(time.Second)
		select {
		case err := <-asked:
			t.Fatalf("ended before its answer: %v", err)
		case err := <-keeps:
			t.Fatalf("ended though it is busy: %v", err)
		default:
		}
		say(b, toyMessage('a', nil))
		hear(t, c)
		if err := <-asked; !errors.Is(err, relay.ErrDrained) {
			t.Errorf("ended: %v, want drained", err)
		}
		say(k, toyMessage('q', nil))
		b = h.backend()
		hear(t, b)
		say(b, toyMessage('a', nil))
		hear(t, k)
		if err := <-keeps; !errors.Is(err, relay.ErrDrained) {
			t.Errorf("ended: %v, want drained", err)
		}
	})
}

// A connection on which nothing is said does not stay.
func TestGreeting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		c, ended := h.enter(&toy{})
		began := time.Now()
		say(c, []byte("q"))
		if err := <-ended; !errors.Is(err, relay.ErrGreeting) || time.Since(began) != relay.DefaultGreeting {
			t.Errorf("ended after %v: %v; want after %v", time.Since(began), err, relay.DefaultGreeting)
		}
	})
}

// A backend that stops in the middle of a message, or reads no more, is given
// up, and its connection says so.
func TestBackendStalls(t *testing.T) {
	for name, stall := range map[string]func(t *testing.T, b net.Conn){
		"inside an answer": func(t *testing.T, b net.Conn) {
			t.Helper()
			hear(t, b)
			say(b, toyMessage('a', make([]byte, 100))[:50])
		},
		"reads no more": func(*testing.T, net.Conn) {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				c, ended := h.enter(&toy{})
				say(c, toyMessage('q', nil))
				stall(t, h.backend())
				began := time.Now()
				err := <-ended
				if took := time.Since(began); took < relay.DefaultPatience || took > relay.DefaultPatience+3*time.Second || !errors.Is(err, relay.ErrStalled) {
					t.Errorf("ended after %v: %v; want stalled after %v", took, err, relay.DefaultPatience)
				}
				if !h.free() {
					t.Error("the permit is held")
				}
			})
		})
	}
}

// starter is a protocol that asks for TLS in the clear.
type starter struct {
	toy

	conf *tls.Config
}

func (p *starter) Inspect(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if m.Bytes[0] == 's' {
		return relay.Verdict{Action: relay.Swallow, Answer: toyMessage('S', nil), Secure: p.conf}, nil
	}
	return p.toy.Inspect(s, m)
}

// A protocol may begin TLS in the middle of the conversation. What a client sent
// in the clear behind its request for it must not be taken for protected bytes.
func TestSecure(t *testing.T) {
	server, client := keypair.Ends(t, "gate")
	for name, early := range map[string]bool{"in order": false, "with early bytes": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				c, ended := h.enter(&starter{conf: server})
				ask := toyMessage('s', nil)
				if early {
					ask = append(ask, toyMessage('q', nil)...)
				}
				say(c, ask)
				hear(t, c)
				if early {
					if err := <-ended; err == nil {
						t.Error("bytes before the handshake were taken")
					}
					return
				}
				secured := tls.Client(c, client)
				go func() { _, _ = secured.Write(toyMessage('q', []byte("1"))) }()
				b := h.backend()
				if got := hear(t, b); string(got[5:]) != "1" {
					t.Fatalf("backend read %q", got)
				}
				say(b, toyMessage('a', nil))
				if got := hear(t, secured); got[0] != 'a' {
					t.Fatalf("client read %q", got)
				}
				_ = c.Close()
				<-ended
			})
		})
	}
}
