// Command httpbench compares the HTTP gate with nginx, HAProxy and the standard
// library's reverse proxy, side by side: the same backend, the same load, one
// after the other in interleaved rounds. It is also each of the processes that
// it starts: backend, gate and reverse proxy.
package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
	"syscall"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "httpbench:", err)
		os.Exit(1)
	}
}

// run does what the first argument says.
func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("want one of: compare, backend, gate, reverse, bare")
	}
	fs := flag.NewFlagSet(args[0], flag.ContinueOnError)
	listen := fs.String("listen", "127.0.0.1:0", "address to listen on")
	backend := fs.String("backend", "", "address of the backend")
	refuse := fs.Bool("refuse", false, "gate, bare: refuse everything")
	size := fs.Int("size", 100, "backend, bare: bytes of an answer's body")
	var c comparison
	fs.DurationVar(&c.round, "for", 2*time.Second, "compare: length of one measurement")
	fs.IntVar(&c.rounds, "rounds", 3, "compare: rounds; the median counts")
	fs.IntVar(&c.conns, "conns", 32, "compare: connections")
	fs.StringVar(&c.other, "other", "", "compare: another build of this program, whose gate is measured too")
	fs.StringVar(&c.only, "only", "", "compare: peers whose names begin with one of these, separated by commas; empty = all")
	fs.BoolVar(&c.tls, "tls", false, "compare: clients come over TLS")
	fs.IntVar(&c.h2, "streams", 0, "compare: HTTP/2, by h2load, with so many streams on each connection; 0 = HTTP/1.1")
	fs.StringVar(&c.profiles, "profiles", "", "compare: directory for CPU profiles of the gate, one for each table; empty = none")
	profile := fs.String("profile", "", "gate: file for a CPU profile; empty = none")
	cert := fs.String("cert", "", "gate, bare: file with certificate and key; empty = no TLS")
	if err := fs.Parse(args[1:]); err != nil {
		return err
	}
	c.size = *size
	if args[0] != "compare" && args[0] != "gate" {
		context.AfterFunc(ctx, func() { os.Exit(0) }) // nothing to finish
	}
	switch args[0] {
	case "compare":
		return c.run(ctx, os.Stdout)
	case "backend":
		return serveBackend(*listen, *size)
	case "gate":
		stop, err := startProfile(*profile)
		if err != nil {
			return err
		}
		defer stop()
		return serveGate(ctx, *listen, *backend, *cert, *refuse)
	case "reverse":
		return serveReverse(*listen, *backend)
	case "bare":
		return serveBare(*listen, *cert, *size, *refuse)
	}
	return fmt.Errorf("unknown part %q", args[0])
}

// startProfile begins a CPU profile and returns what ends it; "" = none.
func startProfile(name string) (stop func(), err error) {
	if name == "" {
		return func() {}, nil
	}
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); _ = file.Close() }, nil
}

// limit is a fixed limit high enough for the load.
type limit struct{}

func (limit) Current() int                            { return 10_000 }
func (limit) Observe(int64, time.Duration, int, bool) {}

// serveGate runs the gate with all its limiters on: a request rate, a
// partition per tenant, a concurrency limit.
func serveGate(ctx context.Context, listen, backend, cert string, refuse bool) error {
	p := &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 1e6},
		Total:   10_000,
		Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return limit{} }, Rate: limiter.Rate{PerSecond: 1e6}},
	}
	if refuse {
		p.Rate = limiter.Rate{PerSecond: 0.001}
	}
	o := httpgate.Options{
		Backend: "http://" + backend, By: []string{"header:X-Tenant"}, MaxIdle: 4096, // as nginx, for 32 connections of 100 streams
		Ingress: ingress.Options{Connections: ingress.Connections{MaxOpen: 20_000}},
	}
	if cert != "" {
		both, err := tls.LoadX509KeyPair(cert, cert)
		if err != nil {
			return err
		}
		o.Ingress.TLS = &tls.Config{Certificates: []tls.Certificate{both}}
	}
	s, err := httpgate.New(limiter.New("bench", p, limiter.Options{}), o)
	if err != nil {
		return err
	}
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	return s.Serve(ctx, ln)
}

// serveReverse runs the standard library's reverse proxy with a tuned
// transport and pooled buffers.
func serveReverse(listen, backend string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: backend})
	proxy.Transport = &http.Transport{
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 1024, DisableCompression: true,
		WriteBufferSize: 16 << 10, ReadBufferSize: 16 << 10,
	}
	proxy.BufferPool = &bufferPool{}
	return http.ListenAndServe(listen, proxy)
}

type bufferPool struct{ p sync.Pool }

func (b *bufferPool) Get() []byte {
	if buf, ok := b.p.Get().([]byte); ok {
		return buf
	}
	return make([]byte, 32<<10)
}

func (b *bufferPool) Put(buf []byte) { b.p.Put(buf) } //nolint:staticcheck // as in everybody's tuned proxy
