package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/demo"
)

// newDemoBackend returns the command that runs a backend to try things on.
func newDemoBackend(s streams) *cobra.Command {
	o := demo.BackendOptions{}
	listen := ""
	cmd := &cobra.Command{
		Use:   "backend",
		Short: "Run a small HTTP backend to try a gate on",
		Long: `Runs a small HTTP backend of known capacity until Ctrl-C: so many workers, each
of which takes so long for a request. Whatever more comes waits, as in a
database. It answers every path with 200.`,
		Example: "  admitd demo backend\n  admitd demo backend --listen 127.0.0.1:9001 --workers 8 --service 25ms",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return demoBackend(ctx, s, listen, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9000", "address of the backend; port 0 takes a free one")
	f.IntVar(&o.Workers, "workers", 4, "requests that are worked on at a time")
	f.DurationVar(&o.Service, "service", 10*time.Millisecond, "mean time of one request")
	return cmd
}

// demoBackend serves until ctx is done.
func demoBackend(ctx context.Context, s streams, listen string, o demo.BackendOptions) error {
	handler, err := demo.NewBackend(ctx, o)
	if err != nil {
		return err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("demo backend: %w", err)
	}
	fmt.Fprintf(s.out, "backend http://%s: %d workers, %v each, so at most %.0f requests/s; Ctrl-C ends it\n",
		ln.Addr(), o.Workers, o.Service, float64(o.Workers)/o.Service.Seconds())
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stopped := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stopped()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("demo backend: %w", err)
	}
	return nil
}
