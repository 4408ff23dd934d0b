package httpgate_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// BenchmarkGate measures one request through real sockets: passed on to a
// backend that answers from memory, and refused.
func BenchmarkGate(b *testing.B) {
	for name, p := range map[string]*limiter.Policy{
		"pass":   {Rate: limiter.Rate{PerSecond: 1e8}, Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(1000) }}},
		"refuse": {Rate: limiter.Rate{PerSecond: 0.001}},
	} {
		b.Run(name, func(b *testing.B) {
			backend, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			defer backend.Close()
			go func() {
				for c, err := backend.Accept(); err == nil; c, err = backend.Accept() {
					go func() {
						defer c.Close()
						always("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nContent-Length: 100\r\n\r\n"+string(make([]byte, 100)))(c, bufio.NewReader(c))
					}()
				}
			}()
			gate := limiter.New("bench", p, limiter.Options{})
			s, err := httpgate.New(gate, httpgate.Options{Backend: "http://" + backend.Addr().String(), By: []string{"header:X-Tenant"}})
			if err != nil {
				b.Fatal(err)
			}
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			done := make(chan error, 1)
			go func() { done <- s.Serve(context.WithoutCancel(b.Context()), ln) }()
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					b.Error(err)
					return
				}
				defer c.Close()
				br := bufio.NewReader(c)
				for pb.Next() {
					_, _ = io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: bench\r\nX-Tenant: acme\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n")
					if err := skip(br); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.StopTimer()
			_ = s.Drain(b.Context())
			<-done
		})
	}
}

// skip reads past an answer with a Content-Length, without allocating.
func skip(br *bufio.Reader) error {
	length := 0
	for {
		line, err := br.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			_, err := br.Discard(length)
			return err
		}
		if len(line) > 18 && string(line[:16]) == "Content-Length: " {
			length, _ = strconv.Atoi(string(line[16 : len(line)-2]))
		}
	}
}
