package httpgate_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// sliced writes byte for byte.
type sliced struct{ net.Conn }

// Write implements net.Conn.
func (c sliced) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}

// HTTP/2 without TLS is known by how it begins, in however many pieces that comes;
// and what begins like it and goes on otherwise is HTTP/1.1.
func TestPrefaceInPieces(t *testing.T) {
	g := start(t, serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Method) }), limiter.Policy{}, httpgate.Options{})
	for _, proto := range []string{"1", "2"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, "P", "PRI"} {
			client := newClient(t, proto)
			tr, _ := client.Transport.(*http.Transport)
			tr.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
				c, err := (&net.Dialer{}).DialContext(ctx, network, addr)
				if err != nil {
					return nil, err
				}
				return sliced{c}, c.(*net.TCPConn).SetNoDelay(true)
			}
			req, err := http.NewRequestWithContext(t.Context(), method, g.url+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Errorf("HTTP/%s, %s: %v", proto, method, err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if string(body) != method || string('0'+byte(resp.ProtoMajor)) != proto {
				t.Errorf("HTTP/%s, %s: answered %q over HTTP/%d", proto, method, body, resp.ProtoMajor)
			}
		}
	}
}
