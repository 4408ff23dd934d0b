package demo

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
	"github.com/admitd/admitd/internal/modelhttp"
)

// demoHTTP is the demo over HTTP: four tenants, of which the last storms.
type demoHTTP struct {
	backend *modelhttp.Server
	calm    float64              // share of the requests that each of the others sends
	counts  [tenants]tenantCount // of the present part
}

// tenants is how many there are; all but the last stay at usual.
const (
	tenants = 4
	usual   = 0.125 * Capacity // requests per second of one tenant
)

// tenantCount is what became of one tenant's requests.
type tenantCount struct{ sent, served atomic.Int64 }

// Settings returns those of the gate: each tenant has a limit of its own.
func (*demoHTTP) Settings() string { return `, "partitions": {"by": "header:X-Tenant"}` }

// Mix begins a part with so many requests per second.
func (d *demoHTTP) Mix(perSecond float64) {
	d.calm, d.counts = usual/perSecond, [tenants]tenantCount{}
}

// Tenants says how many of each tenant's requests were served.
func (d *demoHTTP) Tenants() string {
	var all []string
	for i := range d.counts {
		c := &d.counts[i]
		all = append(all, fmt.Sprintf("%s %.0f %%", tenantName(i), 100*float64(c.served.Load())/float64(max(c.sent.Load(), 1))))
	}
	return strings.Join(all, ", ")
}

func tenantName(i int) string {
	if i == tenants-1 {
		return "storm"
	}
	return "tenant-" + strconv.Itoa(i+1)
}

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
	// With the gate off it may run out of descriptors, which is no news.
	srv := &http.Server{Handler: d.backend, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
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
func (d *demoHTTP) Client(_ context.Context, gate string, budget bool) (func(context.Context) openloop.Sent, func(), error) {
	policy := client.Seed()
	policy.AdaptiveRetries = budget
	policy.BudgetCapacity = demoBudget
	c, err := client.New(client.Options{Policy: &policy})
	if err != nil {
		return nil, nil, err
	}
	base := &http.Transport{MaxIdleConnsPerHost: 1024, MaxConnsPerHost: 0, IdleConnTimeout: 10 * time.Second}
	sender := openloop.NewHTTPSender(c, base)
	send := func(ctx context.Context) openloop.Sent {
		i := min(int(rand.Float64()/d.calm), tenants-1) //nolint:gosec // who sends is no secret
		d.counts[i].sent.Add(1)
		s := sender.Send(ctx, "http://"+gate+"/", "X-Tenant", tenantName(i))
		if s.Verdict == measure.Answered {
			d.counts[i].served.Add(1)
		}
		return s
	}
	return send, base.CloseIdleConnections, nil
}
