package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/modelhttp"
	"github.com/admitd/admitd/lab/openloop"
)

// demoHTTP is the demo over HTTP.
type demoHTTP struct{ backend *modelhttp.Server }

// demoBudget is the size of the retry budget in tokens: small, so that it has
// drained before the demo begins to count.
const demoBudget = 100

// Start implements [target].
func (d *demoHTTP) Start(ctx context.Context) (string, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("demo backend: %w", err)
	}
	d.backend = modelhttp.New(ctx, modelhttp.Options{Workers: demoWorkers, Service: demoService, Thrash: demoThrash})
	srv := &http.Server{Handler: d.backend, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = srv.Serve(ln) }() // ends with the listener
	context.AfterFunc(ctx, func() { _ = srv.Close() })
	return "http://" + ln.Addr().String(), nil
}

// Restart implements [target].
func (d *demoHTTP) Restart() { d.backend.Restart() }

// Clients implements [target].
func (*demoHTTP) Clients() (first, second string) { return "overload, gate on", "and a retry budget" }

// Client implements [target]: the reference client, in the second kind with
// a retry budget.
func (*demoHTTP) Client(_ context.Context, gate string, budget bool) (func(context.Context) openloop.Sent, func(), error) {
	policy := client.Seed()
	policy.AdaptiveRetries = budget
	policy.BudgetCapacity = demoBudget
	c, err := client.New(client.Options{Policy: &policy})
	if err != nil {
		return nil, nil, err
	}
	base := &http.Transport{MaxIdleConnsPerHost: 1024, MaxConnsPerHost: 0, IdleConnTimeout: 10 * time.Second}
	sender := openloop.NewHTTPSender(c, base)
	send := func(ctx context.Context) openloop.Sent { return sender.Send(ctx, "http://"+gate+"/", "", "") }
	return send, base.CloseIdleConnections, nil
}
