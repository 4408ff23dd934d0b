package ingress_test

import (
	"context"
	"io"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress"
)

// A door that closes turns away who has not sent a PROXY header yet, at once,
// and does not blame the client.
func TestCloseDuringProxyHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := newEvents()
		door := ingress.NewDoor("test", ingress.Options{Observer: seen, ProxyProtocol: true})
		pipes := newPipeListener()
		ln := door.Listen(t.Context(), pipes)
		client := pipes.dial()
		defer client.Close()
		synctest.Wait()
		if err := ln.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		if why := <-seen.refused; why != ingress.Draining {
			t.Errorf("refused for %v, want draining", why)
		}
	})
}

// The header may arrive while the door closes: whichever comes first, the place
// is given back. For the race detector.
func TestProxyHeaderMeetsClose(t *testing.T) {
	for range 200 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			door := ingress.NewDoor("test", ingress.Options{ProxyProtocol: true})
			pipes := newPipeListener()
			ln := door.Listen(ctx, pipes)
			client := pipes.dial()
			defer client.Close()
			go func() { _, _ = io.WriteString(client, "PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n") }()
			go cancel()
			if c, err := ln.Accept(); err == nil {
				_ = c.Close()
			}
			_ = client.Close()
			_ = ln.Close()
			if st := door.Status(); st.Open != 0 {
				t.Fatalf("%d connections are open, want none", st.Open)
			}
		})
	}
}

// A PROXY header is believed from the proxies that are listed, and names an IP
// address over TCP, or none when the proxy speaks for itself. The path of a Unix
// socket in a header of version 2 was once taken for the client's address, line
// breaks and all.
func TestProxyHeadersThatAreRefused(t *testing.T) {
	version2 := func(verb, family byte, addresses string) string {
		return "\r\n\r\n\x00\r\nQUIT\n" + string([]byte{0x20 | verb, family, 0, byte(len(addresses))}) + addresses
	}
	tcp := "\xc0\x00\x02\x01\x0a\x00\x00\x01\x00\x01\x00\x02"
	socket := "/a\r\nX-Tenant: other\r\n" + strings.Repeat("\x00", 216-23)
	for name, tc := range map[string]struct {
		header string
		from   string // proxyProtocolFrom
		want   string // the client's address; "" = turned away
	}{
		"TCP":            {version2(1, 0x11, tcp), "", "192.0.2.1:1"},
		"listed":         {"PROXY TCP4 192.0.2.1 10.0.0.2 1 2\r\n", "127.0.0.0/8", "192.0.2.1:1"},
		"not listed":     {"PROXY TCP4 192.0.2.1 10.0.0.2 1 2\r\n", "10.0.0.0/8", ""},
		"UDP":            {version2(1, 0x12, tcp), "", ""},
		"Unix":           {version2(1, 0x31, socket), "", ""},
		"zone":           {"PROXY TCP6 fe80::1%x 2001:db8::1 1 2\r\n", "", ""},
		"itself":         {version2(0, 0x11, tcp), "", "itself"},
		"itself by Unix": {version2(0, 0x31, socket), "", "itself"},
		"unknown":        {"PROXY UNKNOWN\r\n", "", "itself"},
	} {
		o := ingress.Options{Observer: newEvents(), ProxyProtocol: true}
		if tc.from != "" {
			o.ProxyFrom = []netip.Prefix{netip.MustParsePrefix(tc.from)}
		}
		ln := ingress.NewDoor("test", o).Listen(t.Context(), loopback(t))
		c := dial(t, ln.Addr().String())
		_, _ = io.WriteString(c, tc.header)
		if tc.want == "" {
			if why := <-o.Observer.(*events).refused; why != ingress.BadProxyHeader {
				t.Errorf("%s: refused for %v, want proxy_header", name, why)
			}
			continue
		}
		if tc.want == "itself" {
			tc.want = c.LocalAddr().String()
		}
		in, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if got := in.RemoteAddr().String(); got != tc.want {
			t.Errorf("%s: client %q, want %q", name, got, tc.want)
		}
		_ = in.Close()
	}
}
