package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/top"
	"github.com/admitd/admitd/status"
)

// newExplain returns the command that says why a limit is what it is.
func newExplain(s streams) *cobra.Command {
	o := &explainFlags{adminPort{s: s, verb: "explain"}}
	cmd := &cobra.Command{
		Use:   "explain INGRESS [KEY]",
		Short: "Say why a limit is what it is",
		Long: `Says, in sentences, why the concurrency limit of a partition of a running admitd
is what it is: when it moved last and why, and what the latency without load is
and when it was learned. The last changes follow, the newest first.

KEY is a client's key, or the name of a partition of the configuration; without
it, the partition "default". Ends with 1 when there is no such partition, and
with 2 when the daemon cannot be reached.`,
		Example:           "  admitd explain orders tenant-7",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeNames(&o.adminPort, true),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	o.flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

type explainFlags struct{ adminPort }

// run asks and prints.
func (o *explainFlags) run(ctx context.Context, args []string) error {
	path := "/v1/explain/" + url.PathEscape(args[0])
	if len(args) > 1 {
		path += "/" + url.PathEscape(args[1])
	}
	var e status.Explanation
	if done, err := o.ask(ctx, http.MethodGet, path, &e); done || err != nil {
		return err
	}
	if _, err := fmt.Fprintln(o.s.out, top.Printable(e.Text)); err != nil || len(e.Changes) == 0 {
		return err
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "\nAT\tFROM\tTO\tWHY\n")
	for _, c := range e.Changes {
		_, _ = fmt.Fprintf(w, "%s\t%d\t%d\t%s%s\n", c.At.Local().Format(time.TimeOnly), c.From, c.To, top.Printable(cmp.Or(c.Why, c.By, "unknown")), ifSome(": ", c.Meaning))
	}
	return w.Flush()
}
