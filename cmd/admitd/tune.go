package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/tuner"
)

// tuneFlags are where the daemon is.
type tuneFlags struct{ adminPort }

// newTune returns the command that shows and steers the tuner of a running
// daemon.
func newTune(s streams) *cobra.Command {
	o := &tuneFlags{adminPort{s: s, verb: "tune"}}
	cmd := &cobra.Command{
		Use:   "tune",
		Short: "Show and steer the tuner of a running daemon",
		Long: `Shows what the tuner of a running admitd reads, what its policies wish and what
it did and why, and stops it or takes its changes back.

In an incident: 'admitd tune freeze' stops every change at once, 'admitd tune
revert' puts every setting back to the configuration, and 'admitd tune unfreeze'
lets it go on. What a person set, and a policy of which several changes were
taken back, is left alone until 'unfreeze' releases it.

Candidates (shadow: in the configuration) decide on the same requests and refuse
nobody: 'candidates' says what each would have refused, 'promote' puts one in
force, as a change of settings by hand does, and 'demote' takes that back.

Ends with 1 when the daemon refuses, and with 2 when it cannot be reached.`,
		Example: "  admitd tune status\n  admitd tune history | head\n  admitd tune explain 17\n  admitd tune freeze",
		Args:    cobra.NoArgs,
	}
	f := cmd.PersistentFlags()
	o.flags(f)
	cmd.AddCommand(
		o.command("status", "Show signals, policies and settings", 0, o.status),
		o.command("history", "List decisions, the newest first", 0, o.history),
		o.command("explain ID", "Show everything about one decision", 1, o.explain),
		o.command("freeze", "Stop every change", 0, o.freeze),
		o.command("unfreeze [POLICY|SETTING]", "Let it go on; release what is locked or was set by hand", -1, o.unfreeze),
		o.command("revert [ID]", "Take back everything, or one change; leave these settings alone from then on", -1, o.revert),
		o.command("candidates", "Show what the candidates of the configuration would have done", 0, o.candidates),
		o.command("promote NAME", "Put a candidate in force until the next reload; prints an ID", 1, o.promote),
		o.command("demote ID", "Take a promotion back, unless somebody changed the settings since", 1, o.demote),
	)
	return cmd
}

// command is one verb. args is how many it takes; -1 = at most one.
func (o *tuneFlags) command(use, short string, args int, run func(context.Context, []string) error) *cobra.Command {
	check := cobra.ExactArgs(max(args, 0))
	if args < 0 {
		check = cobra.MaximumNArgs(1)
	}
	return &cobra.Command{
		Use: use, Short: short, Long: short + ".", Args: check,
		RunE: func(cmd *cobra.Command, args []string) error { return run(cmd.Context(), args) },
	}
}

func (o *tuneFlags) status(ctx context.Context, _ []string) error {
	var s tuner.Status
	if done, err := o.ask(ctx, http.MethodGet, "/v1/tuner?records=0", &s); done || err != nil {
		return err
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "mode %s%s\n\nSIGNAL\tVALUE\tAGE\tTRUSTED\n", s.Mode, ifSome(", holds still: ", s.Hold))
	for _, g := range s.Signals {
		trusted := "yes"
		if !g.Trusted {
			trusted = "no: " + string(g.Distrust) + ifSome(", ", strings.Join(strings.Fields(g.Detail), " ")) // errors of drivers have several lines
		}
		_, _ = fmt.Fprintf(w, "%s\t%.4g\t%.0fs\t%s\n", g.Name, g.Value, g.AgeSeconds, trusted)
	}
	_, _ = fmt.Fprint(w, "\nPOLICY\tADJUSTS\tCHANGES\tREVERTS\tHOLDS STILL\n")
	for i := range s.Policies {
		p := &s.Policies[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\n", p.Name, p.Adjust, p.Changes, p.Reverts, p.Held)
	}
	_, _ = fmt.Fprint(w, "\nSETTING\tVALUE\tIN THE FILE\tDECIDES\tWHY\n")
	for i := range s.Settings {
		g := &s.Settings[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", g.Setting, amount(g.Value), amount(g.Base), g.Policy, g.Why)
	}
	return w.Flush()
}

func (o *tuneFlags) history(ctx context.Context, _ []string) error {
	var s tuner.Status
	if done, err := o.ask(ctx, http.MethodGet, "/v1/tuner?records=-1", &s); done || err != nil {
		return err
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "ID\tAT\tWHAT\tPOLICY\tSETTING\tOLD\tNEW\tTRIAL\tWHY\n")
	for _, r := range s.Records {
		trial := ""
		if r.Trial != nil {
			trial = r.Trial.State
		}
		was, is := "", ""
		if moves(r) {
			was, is = amount(r.Old), amount(r.New)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n",
			r.ID, r.At.Format(time.DateTime), r.Kind, r.Policy, r.Setting, was, is, trial, r.Why)
	}
	return w.Flush()
}

// moves reports whether a record tells of a value that changed.
func moves(r *tuner.Record) bool { return r.Setting != "" }

func (o *tuneFlags) explain(ctx context.Context, args []string) error {
	var r tuner.Record
	if done, err := o.ask(ctx, http.MethodGet, "/v1/tuner/records/"+url.PathEscape(args[0]), &r); done || err != nil {
		return err
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	line := func(name, text string) {
		if text != "" {
			_, _ = fmt.Fprintf(w, "%s\t%s\n", name, text)
		}
	}
	line("record", fmt.Sprintf("%s, %s at %s (mode %s)", r.ID, r.Kind, r.At.Format(time.RFC3339), r.Mode))
	line("policy", r.Policy)
	line("setting", r.Setting)
	if moves(&r) {
		line("value", amount(r.Old)+" → "+amount(r.New))
	}
	line("why", r.Why)
	for _, g := range r.Signals {
		line("signal", fmt.Sprintf("%s = %.6g, %.0fs old%s", g.Name, g.Value, g.AgeSeconds, ifSome(", not trusted: ", string(g.Distrust))))
	}
	if r.Bound != "" {
		line("cut", fmt.Sprintf("by %s; it wanted %s", r.Bound, amount(r.Wanted)))
	}
	for _, other := range r.Others {
		line("other", fmt.Sprintf("%s: %s (%s)", other.Policy, amount(other.Value), other.Why))
	}
	line("otherwise", r.Otherwise)
	if t := r.Trial; t != nil {
		line("trial", t.State+ifSome(": ", t.Test))
		if t.GoodputBefore+t.GoodputAfter > 0 {
			line("", fmt.Sprintf("p99 %.3gs → %.3gs, goodput %.4g/s → %.4g/s", t.P99Before, t.P99After, t.GoodputBefore, t.GoodputAfter))
		}
	}
	line("by", r.By)
	return w.Flush()
}

func (o *tuneFlags) freeze(ctx context.Context, _ []string) error {
	if done, err := o.ask(ctx, http.MethodPost, "/v1/tuner/freeze", nil); done || err != nil {
		return err
	}
	return o.say("frozen: the tuner changes nothing until 'admitd tune unfreeze'")
}

func (o *tuneFlags) unfreeze(ctx context.Context, args []string) error {
	path, what := "/v1/tuner/unfreeze", "the tuner goes on, and everything that was left alone is released"
	if len(args) > 0 {
		path, what = path+"?name="+url.QueryEscape(args[0]), args[0]+" is released"
	}
	if done, err := o.ask(ctx, http.MethodPost, path, nil); done || err != nil {
		return err
	}
	return o.say(what)
}

func (o *tuneFlags) revert(ctx context.Context, args []string) error {
	path := "/v1/tuner/revert"
	if len(args) > 0 {
		path += "/" + url.PathEscape(args[0])
	}
	var answer struct{ Reverted []string }
	if done, err := o.ask(ctx, http.MethodPost, path, &answer); done || err != nil {
		return err
	}
	if len(answer.Reverted) == 0 {
		return o.say("nothing to take back")
	}
	return o.say("taken back, and left alone until released: " + strings.Join(answer.Reverted, ", "))
}

func (o *tuneFlags) say(text string) error {
	_, err := fmt.Fprintln(o.s.out, text)
	return err
}

// amount is a value that may be without bound.
func amount(v *float64) string {
	if v == nil {
		return "no bound"
	}
	return fmt.Sprintf("%.6g", *v)
}

// ifSome puts text after a prefix, or is empty like it.
func ifSome(prefix, text string) string {
	if text == "" {
		return ""
	}
	return prefix + text
}
