package ingress_test

import (
	"context"
	"io"
	"net"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/descriptors"
)

// Who is let in finds a descriptor for the way to the backend, however late it
// speaks: clients that first connected, and then all spoke, took the last ones, and
// half of them were cut off.
func TestDescriptorsArePromisedToWhoIsLetIn(t *testing.T) {
	account := descriptors.New(func() uint64 { return 1 << 20 })
	left := account.Usable()
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	account.Promise(pipe, left-5) // to clients of other ingresses
	let, seen := make(chan struct{}), newEvents()
	ended := make(chan struct{}, 1)
	late := handlerFunc(func(_ context.Context, c net.Conn) {
		_, _ = io.Copy(io.Discard, c)
		_ = c.Close()
		ended <- struct{}{}
		<-let // its backend's connection stays open for so long
	})
	s, addr := start(t, late, ingress.Options{Descriptors: account, PerClient: 2, Observer: seen})
	first, second := dial(t, addr), dial(t, addr)
	defer second.Close()
	<-seen.opened
	<-seen.opened
	refused := func(why string) {
		t.Helper()
		third := dial(t, addr)
		defer third.Close()
		if _, err := io.ReadAll(third); err != nil || len(seen.refused) == 0 || <-seen.refused != ingress.NoDescriptors {
			t.Errorf("%s: a third client came in, or read %v; want it to find one descriptor too few", why, err)
		}
	}
	refused("two are in")
	if account.Promise(pipe, 2) || !account.Promise(pipe, 1) {
		t.Error("two clients do not take four descriptors")
	}
	_ = first.Close()
	<-ended
	<-seen.closed
	refused("one has left, and its backend has not")
	close(let)
	_ = second.Close()
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if account.Promise(pipe, 5) || !account.Promise(pipe, 4) {
		t.Error("clients that left did not give all back")
	}
}

// Clients that wait give all back when they are turned away, and who is refused
// for want of descriptors is told why in the protocol's words.
func TestDescriptorsOfWhoIsTurnedAway(t *testing.T) {
	account := descriptors.New(func() uint64 { return 1 << 20 })
	usable := account.Usable()
	pipe, other := net.Pipe()
	defer pipe.Close()
	defer other.Close()
	account.Promise(pipe, usable-1)
	v := refusingHandler{in: make(chan bool, 1)}
	_, addr := start(t, v, ingress.Options{Descriptors: account, PerClient: 2})
	for range 200 { // many more than are told at the same time
		c := dial(t, addr)
		if word, err := io.ReadAll(c); string(word) != "max_open" || err != nil {
			t.Fatalf("read %q, %v; want max_open", word, err)
		}
		_ = c.Close()
	}
	account.Release(1)
	_, addr = start(t, v, ingress.Options{Descriptors: account, PerClient: 2, ProxyProtocol: true})
	c := dial(t, addr)
	if _, err := io.WriteString(c, "no header at all\r\n"); err != nil {
		t.Fatal(err)
	}
	_, _ = io.ReadAll(c)            // the end, or a reset for what was not read
	for !account.Promise(pipe, 2) { // the client is told first; who gives nothing back is waited for in vain
		time.Sleep(time.Millisecond)
	}
}
