package httpgate_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
)

// pipes is a listener for one end of pipes.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// refusals tells when a connection is turned away.
type refusals chan ingress.Refusal

func (refusals) Opened()                     {}
func (refusals) Closed()                     {}
func (r refusals) Refused(w ingress.Refusal) { r <- w }

// version2 returns a PROXY header of version 2.
func version2(verb, family byte, addresses []byte) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n"), 0x20|verb, family)
	return append(binary.BigEndian.AppendUint16(b, uint16(len(addresses))), addresses...)
}

// unixAddresses returns the addresses of Unix sockets.
func unixAddresses(path string) []byte { return append([]byte(path), make([]byte, 216-len(path))...) }

// FuzzProxyAddress: whatever a PROXY header says, the backend gets one line about
// the client, with an IP address in it. A Unix socket's path once brought header
// lines and whole requests with it.
func FuzzProxyAddress(f *testing.F) {
	f.Add([]byte("PROXY TCP4 192.0.2.1 10.0.0.2 1 2\r\n"))
	f.Add([]byte("PROXY TCP6 fe80::1%x:y 2001:db8::1 1 2\r\n"))
	f.Add([]byte("PROXY UNKNOWN\r\n"))
	f.Add(version2(1, 0x11, []byte{192, 0, 2, 1, 10, 0, 0, 1, 0, 1, 0, 2}))
	f.Add(version2(1, 0x12, []byte{192, 0, 2, 1, 10, 0, 0, 1, 0, 1, 0, 2}))
	f.Add(version2(1, 0x21, make([]byte, 36)))
	f.Add(version2(1, 0x31, unixAddresses("/a\r\nX-Tenant: other\r\nX-B: ")))
	f.Add(version2(0, 0x31, unixAddresses("/a\r\nX-Tenant: other")))
	head, err := httpgate.RequestHead(httpgate.Options{Backend: "http://127.0.0.1:1"})
	if err != nil {
		f.Fatal(err)
	}
	turned := make(refusals)
	ln := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
	door := ingress.NewDoor("fuzz", ingress.Options{ProxyProtocol: true, Observer: turned}).Listen(f.Context(), ln)
	f.Cleanup(func() { _ = door.Close() })
	accepted := make(chan net.Conn)
	go func() {
		for c, err := door.Accept(); err == nil; c, err = door.Accept() {
			accepted <- c
		}
	}()
	f.Fuzz(func(t *testing.T, raw []byte) {
		client, server := net.Pipe()
		ln.conns <- server
		go func() {
			_, _ = client.Write(raw)
			_ = client.Close()
		}()
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		select {
		case <-turned:
			return
		case c := <-accepted:
			r.RemoteAddr = c.RemoteAddr().String()
			_ = c.Close()
		}
		br := bufio.NewReader(bytes.NewReader(head(r)))
		got, err := http.ReadRequest(br)
		if err != nil {
			t.Fatalf("%q: %v", raw, err)
		}
		if _, err := br.ReadByte(); err != io.EOF || len(got.Header) != 3 || len(got.Header["X-Forwarded-For"]) != 1 {
			t.Errorf("%q from %q: the backend gets %v, want three fields and no more", raw, r.RemoteAddr, got.Header)
		}
		client1 := got.Header.Get("X-Forwarded-For")
		if _, err := netip.ParseAddr(client1); err != nil && client1 != "unknown" || strings.ContainsAny(client1, "%\r\n") {
			t.Errorf("%q: the client is %q to the backend, want an IP address", raw, client1)
		}
	})
}
