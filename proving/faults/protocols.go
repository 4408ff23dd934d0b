package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/modelhttp"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/internal/modelpulsar"
)

const (
	workers = 20
	service = 2 * time.Millisecond
)

// protocol is what differs between the gates.
type protocol struct {
	name    string
	options string                                                     // of the ingress
	serve   func(ctx context.Context, ln net.Listener, address string) // clients are led to the address
	// ask opens a connection, asks once and closes it. A refusal is no error.
	ask func(ctx context.Context, address string) error
	// half is the beginning of something that a client says.
	half []byte
}

func protocols() []protocol {
	return []protocol{
		{
			name: "http", options: "backendTimeout: 2s, http: { headerTimeout: 2s }",
			serve: func(ctx context.Context, ln net.Listener, _ string) {
				s := &http.Server{Handler: modelhttp.New(ctx, modelhttp.Options{Workers: workers, Service: service}), ReadHeaderTimeout: time.Minute}
				_ = s.Serve(ln)
			},
			ask:  askHTTP,
			half: []byte("POST /half HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf"),
		},
		{
			name: "mongodb", options: "mongodb: { topology: { mode: direct } }",
			serve: func(ctx context.Context, ln net.Listener, _ string) {
				_ = modelmongo.New(workers, service).Serve(ctx, ln)
			},
			ask: func(ctx context.Context, address string) error {
				c, err := modelmongo.Dial(ctx, address, true)
				if err != nil {
					return err
				}
				defer c.Close()
				return refusalIsFine[*modelmongo.Error](within(ctx, c, func() error { return c.Find(ctx, "faults", "things") }))
			},
			half: []byte{200, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xdd, 7, 0, 0, 0, 0, 0, 0},
		},
		{
			name: "postgres",
			serve: func(ctx context.Context, ln net.Listener, _ string) {
				_ = modelpostgres.New(workers, service).Serve(ctx, ln)
			},
			ask: func(ctx context.Context, address string) error {
				c, err := modelpostgres.Dial(ctx, address)
				if err != nil {
					return err
				}
				defer c.Close()
				return refusalIsFine[*modelpostgres.Error](within(ctx, c, func() error { return c.Query("select 1") }))
			},
			half: []byte{0, 0, 0, 100, 0, 3, 0, 0, 'u', 's', 'e', 'r'},
		},
		{
			name: "pulsar",
			serve: func(ctx context.Context, ln net.Listener, address string) {
				_ = modelpulsar.New(modelpulsar.Options{URL: "pulsar://" + address, Workers: workers, ServiceTime: service}).Serve(ctx, ln)
			},
			ask:  askPulsar,
			half: []byte{0, 0, 0, 100, 0, 0, 0, 50, 8, 2},
		},
	}
}

// refusalIsFine keeps an error unless the gate has answered with it.
func refusalIsFine[E error](err error) error {
	if _, ok := errors.AsType[E](err); ok {
		return nil
	}
	return err
}

// within runs f and closes c when ctx is done before it is.
func within(ctx context.Context, c io.Closer, f func() error) error {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	return f()
}

func askHTTP(ctx context.Context, address string) error {
	c, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer c.Close()
	return within(ctx, c, func() error {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		res, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK && res.Header.Get("X-Admitd-Reason") == "" {
			return fmt.Errorf("status %d", res.StatusCode)
		}
		return nil
	})
}

func askPulsar(ctx context.Context, address string) error {
	c, err := pulsarproducer.Connect(ctx, address, pulsarproducer.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.NewProducer(ctx, "faults", pulsarproducer.ProducerOptions{})
	if err != nil {
		return err
	}
	return p.Send(ctx, []byte("x"))
}
