package relay_test

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/relay"
)

// Whether a backend answers is known for every wire protocol: an answer that
// lands says yes, a connection that is lost while one is owed says no, and one
// that is lost while nothing is owed says nothing. Only HTTP used to tell.
func TestHealthOfWireBackends(t *testing.T) {
	for name, tc := range map[string]struct {
		play  func(h *house)
		state ingress.BackendState
		cause string
	}{
		"it answered, and then hung up": {func(h *house) {
			client, ended := h.enter(&toy{})
			say(client, toyMessage('q', nil))
			backend := h.backend()
			hear(h.t, backend)
			say(backend, toyMessage('a', nil))
			hear(h.t, client)
			_ = backend.Close()
			<-ended
		}, ingress.BackendUp, ""},
		"it hung up instead of answering": {func(h *house) {
			client, ended := h.enter(&toy{})
			say(client, toyMessage('q', nil))
			backend := h.backend()
			hear(h.t, backend)
			_ = backend.Close()
			<-ended
		}, ingress.BackendFailing, "closed"},
		"the client left": {func(h *house) {
			client, ended := h.enter(&toy{})
			say(client, toyMessage('q', nil))
			backend := h.backend()
			hear(h.t, backend)
			_ = client.Close()
			synctest.Wait()
			say(backend, toyMessage('a', nil))
			<-ended
		}, ingress.BackendUp, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := open(t, relay.Options{})
				tc.play(h)
				got := h.health.Status(time.Now())[0]
				if got.State != tc.state || got.Cause != tc.cause {
					t.Errorf("the backend is %s (%s), want %s (%s)", got.State, got.Cause, tc.state, tc.cause)
				}
			})
		})
	}
}

// A backend that was not asked for want of a descriptor is neither left alone
// afterwards nor said to be overloaded: the limit fell to its least.
func TestNoDescriptorForTheBackend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := open(t, relay.Options{})
		h.dialing = func() error { return syscall.EMFILE }
		for range 2 {
			client, ended := h.enter(&toy{})
			say(client, toyMessage('q', nil))
			if err := <-ended; !errors.Is(err, relay.ErrUnreachable) || !errors.Is(err, syscall.EMFILE) {
				t.Errorf("the session ended with %v", err)
			}
		}
		if n := h.gate.Status().Partitions[0].Counts.Dropped; n != 0 {
			t.Errorf("%d requests are counted as dropped by the backend", n)
		}
		if got := h.health.Status(time.Now())[0].State; got != ingress.BackendUnknown {
			t.Errorf("the backend is %s", got)
		}
	})
}
