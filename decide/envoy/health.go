package envoy

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthEvery is how often a watched state is looked at.
const healthEvery = time.Second

// health tells whether this gate should be asked: of the whole, whatever service
// is named.
type health struct {
	healthv1.UnimplementedHealthServer

	ready    func() bool
	stopping <-chan struct{}
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

// Watch implements the service: the state at first, and whenever it changes.
func (h *health) Watch(_ *healthv1.HealthCheckRequest, stream grpc.ServerStreamingServer[healthv1.HealthCheckResponse]) error {
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
