package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/top"
)

// newTop returns the command that shows a running daemon in the terminal.
func newTop(s streams) *cobra.Command {
	var o top.Options
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show a running daemon in the terminal",
		Long: `Shows what a running admitd admits and refuses, why and for whom, and how its
limits stand, as read from the admin port every second.

Keys: ` + top.Keys() + `; the same key again turns the order.
Arrows, PgUp, PgDn, Home and End move through the partitions, Enter says why the
limit of one is what it is. / searches, also for tenants that are not listed; o
shows who makes the load; Tab shows one ingress after the other; p pauses, q or
Ctrl-C quits.

With --once, or when the output is not a terminal, it prints one snapshot with
the rates of one interval and ends. NO_COLOR switches colours off.`,
		Example: "  admitd top\n  admitd top --admin http://10.0.0.7:9462 --sort rtt\n  admitd top --once | head",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return top.Run(cmd.Context(), s.out, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.Admin, "admin", "http://127.0.0.1:9462", "URL of the admin port")
	f.StringVar(&o.TokenFile, "token-file", "", "file with the bearer token, for an admin port that asks for one")
	f.StringVar(&o.Sort, "sort", "refused", "order: "+strings.Join(top.OrderNames(), ", "))
	f.StringVar(&o.Ingress, "ingress", "", "only this ingress")
	f.DurationVar(&o.Interval, "interval", time.Second, "time between two readings, at least 100ms")
	f.IntVar(&o.Rows, "rows", 40, "partitions that --once prints at most, 0 = all that are told")
	f.BoolVar(&o.Shapes, "shapes", false, "print the shapes that take most of the backend, and end")
	f.BoolVar(&o.Once, "once", false, "print one snapshot and end")
	_ = cmd.MarkFlagFilename("token-file")
	_ = cmd.RegisterFlagCompletionFunc("ingress", func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return completeNames(&adminPort{admin: o.Admin, tokenFile: o.TokenFile}, false)(cmd, nil, typed)
	})
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(top.OrderNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}
