package main

import (
	"compress/gzip"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	collect "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"
)

// collector takes spans over OTLP/HTTP and counts them by ingress and what they
// say became of the request.
type collector struct {
	address string

	mu    sync.Mutex // guards the fields below
	spans map[string]map[string]float64
}

func newCollector(ctx context.Context) (*collector, error) {
	c := &collector{spans: map[string]map[string]float64{}}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.address = ln.Addr().String()
	s := &http.Server{Handler: c, ReadHeaderTimeout: time.Minute}
	go func() { _ = s.Serve(ln) }() // ends with the process
	return c, nil
}

// ServeHTTP implements http.Handler.
func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		body = z
	}
	b, err := io.ReadAll(body)
	var e collect.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(b, &e)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c.take(&e)
	w.Header().Set("Content-Type", "application/x-protobuf")
	empty, _ := proto.Marshal(&collect.ExportTraceServiceResponse{}) // cannot fail
	_, _ = w.Write(empty)
}

// take counts what was exported: all of an ingress as "spans", the others by decision,
// or by the reason of the refusal.
func (c *collector) take(e *collect.ExportTraceServiceRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range e.GetResourceSpans() {
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				value := map[string]string{}
				for _, a := range s.GetAttributes() {
					value[a.GetKey()] = a.GetValue().GetStringValue()
				}
				name := value["admitd.ingress"]
				if c.spans[name] == nil {
					c.spans[name] = map[string]float64{}
				}
				what := value["admitd.decision"]
				if value["admitd.reason"] != "" {
					what = value["admitd.reason"]
				}
				c.spans[name][what]++
				c.spans[name]["spans"]++
			}
		}
	}
}

// of returns what was counted of an ingress.
func (c *collector) of(name string) map[string]float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]float64{}
	for k, v := range c.spans[name] {
		out[k] = v
	}
	return out
}
