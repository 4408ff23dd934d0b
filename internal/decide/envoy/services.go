package envoy

import (
	"net/http"
	"sync"

	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/limiter"
)

// Quotas tells the rates that Envoys may share. Safe for concurrent use.
type Quotas interface {
	// Quota returns what this gate may give away to the requests of a partition
	// key. ok is false for an ingress that is not known.
	Quota(ingress, partition string) (q Quota, ok bool)
}

// Quota is a rate that Envoys share.
type Quota struct {
	// Rate is the configured one, or the gate's share of it where several gates have
	// one together. The zero Rate = nobody is to be held back.
	limiter.Rate

	// Blocked says that nothing passes.
	Blocked bool
	// Whole says that the rate is that of the ingress, which all its partitions
	// share, and not of the partition alone.
	Whole bool
}

// Options of [New]. Quotas is required.
type Options struct {
	Quotas Quotas
	// Ready is what gRPC health tells; nil = always serving.
	Ready func() bool
}

// Services answers over gRPC. It is safe for concurrent use.
type Services struct {
	server   *grpc.Server
	stopping chan struct{} // closed when streams must end
	stop     sync.Once
}

// New returns the services over a desk.
func New(d *decide.Decider, o Options) *Services {
	if o.Ready == nil {
		o.Ready = func() bool { return true }
	}
	s := &Services{server: grpc.NewServer(), stopping: make(chan struct{})}
	ratelimitv3.RegisterRateLimitServiceServer(s.server, &RateLimitService{decider: d})
	authv3.RegisterAuthorizationServer(s.server, &authorization{decider: d})
	quotav3.RegisterRateLimitQuotaServiceServer(s.server, &quotaService{ledger: newLedger(o.Quotas), stopping: s.stopping})
	healthv1.RegisterHealthServer(s.server, &health{ready: o.Ready, stopping: s.stopping})
	return s
}

// ServeHTTP implements http.Handler, for gRPC over HTTP/2.
func (s *Services) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.server.ServeHTTP(w, r) }

// Close ends the streams; Envoys ask elsewhere and go on with what they were
// assigned last.
func (s *Services) Close() { s.stop.Do(func() { close(s.stopping) }) }
