package relay_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/ingress/relay"
)

// stirred is a toy that is told of changes besides, when an answer lands.
type stirred struct{ toy }

func (p *stirred) Landed(s *relay.Session, m relay.Message) (relay.Verdict, error) {
	if m.Bytes[5]%3 == 0 {
		s.Wake()
	}
	go s.Wake()
	return p.toy.Landed(s, m)
}

// Whoever waits for its turn goes on when the answer comes, whether that is told
// before it waits, while it does, or together with what has changed besides. A change
// that were lost would leave it there for ever.
func TestNoChangeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const questions = 300
		h := open(t, relay.Options{})
		c, ended := h.enter(&stirred{})
		var all []byte
		for i := range questions {
			all = append(all, toyMessage('q', []byte{byte(i)})...)
		}
		say(c, all)
		b := h.backend()
		go func() {
			for range questions {
				q, err := listenTo(b)
				if err != nil {
					return
				}
				_, _ = b.Write(toyMessage('a', q[5:]))
			}
		}()
		_ = c.SetReadDeadline(time.Now().Add(time.Minute))
		for i := range questions {
			if got := hear(t, c); !bytes.Equal(got[5:], []byte{byte(i)}) {
				t.Fatalf("answer %d is %q", i, got)
			}
		}
		_ = c.Close()
		<-ended
	})
}
