package labcmd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/lab"
)

// newBackend returns the command that is a backend for live runs.
func newBackend(s streams) *cobra.Command {
	var o liveFlags
	var listen string
	cmd := &cobra.Command{
		Use:   "backend",
		Short: "Be the backend of a scenario, over HTTP, for live runs",
		Long: `Listens and answers as the backend of a scenario does in virtual time, its
changes of health included, which count from the first request. Put a gate in
front of it and play the same scenario with 'admitd lab live': what comes of it
can be compared with 'admitd lab run'.`,
		Example: "  admitd lab backend --scenario slower --variant '÷5 / the backend continues'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, run, err := o.pick()
			if err != nil {
				return err
			}
			return serveBackend(cmd.Context(), s, listen, lab.NewLiveBackend(cmd.Context(), run, o.seed))
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", "127.0.0.1:9000", "address to listen on")
	f.StringVar(&o.scenario, "scenario", "steady", "shipped scenario")
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	f.StringVar(&o.file, "file", "", "scenario file instead")
	f.StringVar(&o.variant, "variant", "", "variant; the first one when none is named")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the service times")
	return cmd
}

// serveBackend serves until ctx is done.
func serveBackend(ctx context.Context, s streams, listen string, h http.Handler) error {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", listen)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	fmt.Fprintf(s.err, "backend on http://%s\n", ln.Addr())
	srv := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}
