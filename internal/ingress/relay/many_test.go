package relay_test

import (
	"bytes"
	"errors"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// many is a toy in which several questions are at work at once. 'k' is kept.
type many struct {
	toy

	mu      sync.Mutex // guards the fields below
	working int
	left    int
	kept    [][]byte
}

func (p *many) Inspect(_ *relay.Session, m relay.Message) (relay.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if m.Bytes[0] == 'k' {
		return relay.Verdict{Action: relay.Keep}, nil
	}
	p.working++
	return relay.Verdict{}, nil
}

func (p *many) Landed(_ *relay.Session, _ relay.Message) (relay.Verdict, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.working--
	return relay.Verdict{Last: p.working == 0 && p.left > 0}, nil
}

func (p *many) Keep(message []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = append(p.kept, message)
}

func (p *many) Leave() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left++
	return p.working > 0
}

// A message that is kept is handed over whole, whatever its size, once all that
// came before it was forwarded, and what comes behind it goes on.
func TestKeptMessages(t *testing.T) {
	for _, size := range []int{3, 40 << 10, 1 << 20} {
		synctest.Test(t, func(t *testing.T) {
			h, p := open(t, relay.Options{}), &many{toy: toy{need: 9}}
			c, _ := h.enter(p)
			before, kept, behind := toyMessage('q', []byte("before")), toyMessage('k', bytes.Repeat([]byte("kept"), size)), toyMessage('q', []byte("behind"))
			say(c, bytes.Join([][]byte{before, kept, behind}, nil))
			b := h.backend()
			synctest.Wait()
			if len(p.kept) != 0 {
				t.Fatal("kept before what came before was read by the backend")
			}
			for _, want := range [][]byte{before, behind} {
				if got := hear(t, b); !bytes.Equal(got, want) {
					t.Fatalf("backend read %q, want %q", got, want)
				}
			}
			if len(p.kept) != 1 || !bytes.Equal(p.kept[0], kept) {
				t.Errorf("%d messages were kept, want the one of %d bytes", len(p.kept), len(kept))
			}
		})
	}
}

// While a protocol that multiplexes says that the backend is at work for a
// client that left, its answers are read to nobody: until the last one, or until
// nobody can wait for it any more.
func TestLeavingWithSeveralAtWork(t *testing.T) {
	for name, tc := range map[string]struct {
		options relay.Options
		answers int
		want    time.Duration
	}{
		"answered":     {relay.Options{}, 2, 2 * time.Second},
		"not answered": {relay.Options{Finish: time.Minute}, 1, time.Minute},
		"cancelled":    {relay.Options{Cancel: true}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h, p := open(t, tc.options), &many{}
				c, ended := h.enter(p)
				say(c, append(toyMessage('q', nil), toyMessage('q', nil)...))
				b := h.backend()
				hear(t, b)
				hear(t, b)
				began := time.Now()
				_ = c.Close()
				for range tc.answers {
					time.Sleep(time.Second)
					say(b, toyMessage('a', nil))
				}
				err := <-ended
				// A pipe says that it is closed to who moves a deadline, which a socket does not.
				if took := time.Since(began); took != tc.want || !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("ended after %v: %v; want %v, because the client left", took, err, tc.want)
				}
				if p.left == 0 || p.working != 2-tc.answers {
					t.Errorf("%d at work, told %d times that the client left; want %d", p.working, p.left, 2-tc.answers)
				}
			})
		})
	}
}
