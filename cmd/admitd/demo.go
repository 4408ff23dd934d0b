package main

import (
	"errors"
	"fmt"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/demo"
)

// newDemo returns the command that shows what admitd is for.
func newDemo(s streams) *cobra.Command {
	var o demo.Options
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Overload a small backend, without the gate and behind it",
		Long: fmt.Sprintf(`Starts a small backend that can serve exactly %.0f requests per second and sends
it several times as many, open loop: after a calm moment first with the gate
off, then with the gate on and two kinds of client. The backend is restarted between the parts,
since it would not recover by itself. A table at the end says what came of it. Nothing is downloaded and nothing is
left behind. While it runs the admin port shows the live page.

--protocol pulsar shows what only a queue has: two producers on one connection,
one of them over its rate, and what that costs the other.`, demo.Capacity),
		Example: "  admitd demo\n  admitd demo --for 30s --load 8\n  admitd demo --protocol mongodb",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Version, _ = buildVersion()
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			err := demo.Run(ctx, s.out, s.err, o)
			if err != nil && ctx.Err() != nil {
				return errors.New("demo: interrupted")
			}
			return err
		},
	}
	cmd.AddCommand(newDemoBackend(s))
	f := cmd.Flags()
	f.DurationVar(&o.For, "for", 20*time.Second, "how long the whole demo runs, at least 6s")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:8462", "address of the gate; port 0 takes a free one")
	f.StringVar(&o.Admin, "admin", "127.0.0.1:9462", "address of the admin port; port 0 takes a free one")
	f.StringVar(&o.Protocol, "protocol", "http", "one of "+strings.Join(demo.Protocols(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("protocol", cobra.FixedCompletions(demo.Protocols(), cobra.ShellCompDirectiveNoFileComp))
	f.BoolVar(&o.Real, "real", false, "with --protocol postgres: a real server of this machine, thrown away afterwards, instead of a model; it needs an idle machine")
	f.Float64Var(&o.Load, "load", 4, "offered load as a multiple of the backend's capacity")
	return cmd
}
