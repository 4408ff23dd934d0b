package envoy

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// healthEvery is how often a watched state is looked at.
const healthEvery = time.Second

// Bounds of the streams of Watch, for which nobody needs a token. Each takes about 31
// KiB.
const (
	maxWatches   = 1024
	maxWatchesOf = 4 // of one connection
)

// watches counts the streams of Watch. The zero value counts none. It is safe for
// concurrent use.
type watches struct {
	mu  sync.Mutex // guards the fields below
	all int
	of  map[string]int // by the address of the client's end of the connection
}

// begin counts one more, and reports whether there may be.
func (w *watches) begin(of string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all >= maxWatches || w.of[of] >= maxWatchesOf {
		return false
	}
	if w.of == nil {
		w.of = map[string]int{}
	}
	w.all++
	w.of[of]++
	return true
}

// end counts one less.
func (w *watches) end(of string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all--
	if w.of[of]--; w.of[of] == 0 {
		delete(w.of, of)
	}
}

// health tells whether this gate should be asked: of the whole, whatever service
// is named.
type health struct {
	healthv1.UnimplementedHealthServer

	ready    func() bool
	stopping <-chan struct{}
	watches  watches
}

func (h *health) state() *healthv1.HealthCheckResponse {
	s := healthv1.HealthCheckResponse_NOT_SERVING
	if h.ready() {
		s = healthv1.HealthCheckResponse_SERVING
	}
	return &healthv1.HealthCheckResponse{Status: s}
}

// Check implements the service.
func (h *health) Check(context.Context, *healthv1.HealthCheckRequest) (*healthv1.HealthCheckResponse, error) {
	return h.state(), nil
}

// Watch implements the service: the state at first, and whenever it changes. There are
// at most maxWatchesOf streams on a connection and maxWatches in all.
func (h *health) Watch(_ *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
	var of string
	if p, ok := peer.FromContext(stream.Context()); ok {
		of = p.Addr.String()
	}
	if !h.watches.begin(of) {
		return status.Error(codes.ResourceExhausted, "too many streams of Watch")
	}
	defer h.watches.end(of)
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	told := healthv1.HealthCheckResponse_UNKNOWN
	for {
		if now := h.state(); now.Status != told {
			if err := stream.Send(now); err != nil {
				return err
			}
			told = now.Status
		}
		select {
		case <-stream.Context().Done():
			return stream.Context().Err()
		case <-h.stopping:
			return status.Error(codes.Unavailable, "the gate stops")
		case <-ticker.C:
		}
	}
}
