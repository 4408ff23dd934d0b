package demo

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/admitd/admitd/internal/modelhttp"
)

// BackendOptions are those of a backend to try a gate on.
type BackendOptions struct {
	Workers int           // requests that are worked on at a time, 1 to 10,000
	Service time.Duration // mean time of one, above 0 and at most a minute
}

// NewBackend returns the model backend of the demo, which works until ctx is
// done.
func NewBackend(ctx context.Context, o BackendOptions) (http.Handler, error) {
	if o.Workers < 1 || o.Workers > 10_000 || o.Service <= 0 || o.Service > time.Minute {
		return nil, fmt.Errorf("demo backend: --workers must be 1 to 10000 and --service at most 1m (%d, %v)", o.Workers, o.Service)
	}
	return modelhttp.New(ctx, modelhttp.Options{Workers: o.Workers, Service: o.Service, Thrash: demoThrash}), nil
}
