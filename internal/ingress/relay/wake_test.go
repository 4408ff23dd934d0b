package relay_test

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// teller is a toy that remembers its session.
type teller struct {
	toy

	s *relay.Session
}

func (p *teller) Inspect(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	p.s = s
	return p.toy.Inspect(s, m)
}

// Messages of the gate wait for the rest of an answer that is on its way, and then
// go one after the other: whoever gives the right to write back hands it to one.
func TestTellingInTheMiddleOfAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		p := &teller{toy: toy{need: 5}}
		client, ended := h.enter(p)
		say(client, toyMessage('q', nil))
		backend := h.backend()
		hear(t, backend)

		answer := toyMessage('a', bytes.Repeat([]byte("x"), 100<<10))
		say(backend, answer[:50<<10])
		begun := make([]byte, 40<<10)
		if _, err := io.ReadFull(client, begun); err != nil {
			t.Fatal(err)
		}
		var told sync.WaitGroup
		for range 8 {
			told.Go(func() {
				for range 5 {
					if err := p.s.Tell(toyMessage('i', []byte("news"))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		synctest.Wait()
		say(backend, answer[50<<10:])
		rest := make([]byte, len(answer)-len(begun))
		if _, err := io.ReadFull(client, rest); err != nil || !bytes.Equal(append(begun, rest...), answer) {
			t.Fatalf("the client read another answer, %v", err)
		}
		for range 8 * 5 {
			if got := hear(t, client); !bytes.Equal(got, toyMessage('i', []byte("news"))) {
				t.Fatalf("the client heard %q behind the answer", got)
			}
		}
		told.Wait()
		_ = client.Close()
		<-ended
	})
}
