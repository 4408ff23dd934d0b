package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/coreos/go-systemd/v22/activation"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/admitd/admitd/clock"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
	"github.com/admitd/admitd/internal/daemon"
)

// exitKilled is the exit status after a second signal.
const exitKilled = 130

// serveOptions are the flags of serve.
type serveOptions struct {
	config     string
	clockFault string
}

// newServe returns the command that runs the daemon.
func newServe(s streams) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:               "serve --config FILE",
		ValidArgsFunction: cobra.FixedCompletions([]string{"yaml", "yml"}, cobra.ShellCompDirectiveFilterFileExt),
		Short:             "Run the daemon",
		Long: `Runs the gates that the configuration names, until SIGTERM or SIGINT. Then it
drains: no new connections, new requests are refused with reason "draining",
what is in progress finishes within each ingress's drainTimeout. A second
signal stops at once. Exit status: 0 after a clean drain, 1 when work had to be
cut off or the daemon failed.

SIGHUP, POST /v1/reload on the admin port and a change of the file itself put a
new configuration in force. One that does not hold is refused and the running
one stays; /readyz, the metric admitd_config_last_reload_successful and the log
say so. Every key can be set from the environment: ADMITD_ADMIN__LISTEN=….`,
		Example: "  admitd serve --config admitd.yaml",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) > 0 && o.config != "" && o.config != args[0]:
				return fmt.Errorf("two configuration files: %s and %s", o.config, args[0])
			case len(args) > 0:
				o.config = args[0]
			case o.config == "":
				return errors.New("no configuration file: name it with --config FILE, or write one after 'admitd demo' has shown what it does")
			}
			return serve(cmd.Context(), s, o)
		},
	}
	cmd.Flags().StringVarP(&o.config, "config", "c", "", "configuration file; FILE alone does as well")
	cmd.Flags().StringVar(&o.clockFault, "clock-fault", "", "rehearse a clock fault, such as frozen@10s+20s or jump=1h@10s")
	_ = cmd.Flags().MarkHidden("clock-fault")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml")
	return cmd
}

// isTerminal reports whether a person reads what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// serve runs the daemon to its end.
func serve(ctx context.Context, s streams, o serveOptions) error {
	fault, err := clock.ParseFault(o.clockFault)
	if err != nil {
		return err
	}
	content, err := config.Read(o.config)
	if err != nil {
		return err
	}
	cfg, err := config.Parse(o.config, content, os.Environ())
	if err != nil {
		return err
	}
	sockets, err := activation.ListenersWithNames()
	if err != nil {
		return fmt.Errorf("sockets from systemd: %w", err)
	}
	v, _ := buildVersion()
	d, err := daemon.New(cfg, daemon.Options{
		Path: o.config, Loaded: watch.HashOf(content), Env: os.Environ(), Version: v, Log: s.err, Terminal: isTerminal(s.err), Fault: fault, Sockets: sockets,
		Kill: func() { os.Exit(exitKilled) }, MemoryLimit: limitMemory(),
	})
	if err != nil {
		return err
	}
	return d.Run(ctx)
}
