package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/admitd/admitd/internal/testkit/keypair"
)

// certify writes a certificate for loopback addresses, with its key, for every peer.
func (c *comparison) certify() error {
	cert, err := keypair.Make("127.0.0.1")
	if err != nil {
		return err
	}
	both, key, err := keypair.PEM(cert)
	if err != nil {
		return err
	}
	both = append(both, key...)
	return os.WriteFile(filepath.Join(c.dir, "both.pem"), both, 0o600)
}

// certificate returns the file that certify wrote, "" when there is no TLS.
func (c *comparison) certificate() string {
	if !c.tls {
		return ""
	}
	return filepath.Join(c.dir, "both.pem")
}

// bare returns net/http alone as a peer.
func (c *comparison) bare(refuse bool) form {
	return form{"net/http alone", "", 200, func(addr string) *exec.Cmd {
		args := []string{"bare", "-listen", addr, "-size", strconv.Itoa(c.size), "-refuse=" + strconv.FormatBool(refuse)}
		if c.tls {
			args = append(args, "-cert", c.certificate())
		}
		return exec.Command(c.self, args...)
	}}
}

// serveBare runs a handler of net/http that answers from memory and asks nobody:
// the most that a gate can reach behind it.
func serveBare(listen, cert string, size int, refuse bool) error {
	body, status := bytes.Repeat([]byte("x"), size), http.StatusOK
	if refuse {
		status = http.StatusTooManyRequests
	}
	s := &http.Server{Addr: listen, Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 250}}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetHTTP2(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h["Content-Type"] = []string{"text/plain"}
		h["Content-Length"] = []string{strconv.Itoa(size)}
		w.WriteHeader(status)
		_, _ = w.Write(body)
	})
	if cert != "" {
		return s.ListenAndServeTLS(cert, cert)
	}
	return s.ListenAndServe()
}

// nginxListens returns what follows the address that nginx listens on.
func (c *comparison) nginxListens() string {
	s := ""
	if c.tls {
		s += " ssl"
	}
	if c.h2 > 0 {
		s += " http2"
	}
	if c.tls {
		s += "; ssl_certificate " + c.certificate() + "; ssl_certificate_key " + c.certificate()
	}
	return s
}

// haproxyBinds returns what follows the address that HAProxy listens on.
func (c *comparison) haproxyBinds() string {
	switch {
	case c.tls && c.h2 > 0:
		return " ssl crt " + c.certificate() + " alpn h2"
	case c.tls:
		return " ssl crt " + c.certificate()
	case c.h2 > 0:
		return " proto h2"
	}
	return ""
}

// over says in the title what the load came over.
func (c *comparison) over() string {
	s := ""
	if c.h2 > 0 {
		s = fmt.Sprintf(" over HTTP/2, %d streams each", c.h2)
	}
	if c.tls {
		s += ", TLS"
	}
	return s
}

// drive puts load on p.
func (c *comparison) drive(ctx context.Context, p *peer, d time.Duration) (load, error) {
	if c.h2 > 0 {
		return c.driveHTTP2(ctx, p, d)
	}
	dial := func() (net.Conn, error) { return net.Dial("tcp", p.addr) }
	if c.tls {
		dial = func() (net.Conn, error) {
			return tls.Dial("tcp", p.addr, &tls.Config{InsecureSkipVerify: true})
		}
	}
	return drive(ctx, dial, c.conns, d)
}

// Lines of what h2load reports.
var (
	finished = regexp.MustCompile(`finished in ([0-9.]+)(m?s), ([0-9.]+) req/s`)
	statuses = regexp.MustCompile(`status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx`)
	latency  = regexp.MustCompile(`time for request: +\S+ +\S+ +(\S+)`)
)

// driveHTTP2 has h2load do it, which tells the mean of latencies alone.
func (c *comparison) driveHTTP2(ctx context.Context, p *peer, d time.Duration) (load, error) {
	scheme := "http"
	if c.tls {
		scheme = "https"
	}
	seconds := strconv.Itoa(max(int(d.Seconds()), 1))
	out, err := exec.CommandContext(ctx, "h2load", "-t", "2", "-c", strconv.Itoa(c.conns), "-m", strconv.Itoa(c.h2), "-D", seconds,
		"-H", "x-tenant: tenant-1", scheme+"://"+p.addr+"/orders/1").CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("h2load: %w: %s", err, out)
	}
	took, codes, mean := finished.FindSubmatch(out), statuses.FindSubmatch(out), latency.FindSubmatch(out)
	if took == nil || codes == nil {
		return load{}, fmt.Errorf("h2load said %s", out)
	}
	l := load{status: map[int]int{}}
	for i, status := range []int{200, 300, 429, 503} {
		n, _ := strconv.Atoi(string(codes[i+1]))
		l.status[status] = n
		l.done += n
	}
	perSecond, _ := strconv.ParseFloat(string(took[3]), 64)
	l.took = time.Duration(float64(l.done) / perSecond * float64(time.Second))
	if mean != nil {
		l.p50, _ = time.ParseDuration(string(mean[1]))
	}
	return l, nil
}
