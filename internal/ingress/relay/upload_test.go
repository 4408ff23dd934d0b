package relay_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
)

// A message that had come in several parts was taken for one of which the rest does
// not come, until the next: after seconds its permit was given back while the backend
// worked on it, and after [relay.DefaultPatience] its client was cut off. So were those
// that had nothing to ask for as long, which keep whatever they asked last.
func TestWholeUploadIsNotWaitedFor(t *testing.T) {
	for name, kind := range map[string]byte{"at work": 'q', "a note, and then nothing": 'n'} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				c, ended := h.enter(&toy{need: 9})
				question := toyMessage(kind, make([]byte, 100<<10))
				say(c, question)
				b := h.backend()
				if _, err := io.CopyN(io.Discard, b, int64(len(question))); err != nil {
					t.Fatal(err)
				}
				for range 5 {
					time.Sleep(relay.DefaultPatience)
					synctest.Wait()
					if atWork, free := kind == 'q', h.free(); free == atWork {
						t.Fatalf("the backend is at work: %v, and the permit is free: %v", atWork, free)
					}
				}
				if kind == 'n' {
					say(c, toyMessage('q', nil))
					hear(t, b)
				}
				say(b, toyMessage('a', nil))
				hear(t, c)
				synctest.Wait()
				if !h.free() {
					t.Error("the permit is held after the answer")
				}
				select {
				case err := <-ended:
					t.Errorf("ended: %v", err)
				default:
				}
			})
		})
	}
}
