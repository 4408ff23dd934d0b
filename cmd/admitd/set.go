package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/limiter"
)

// setFlags are those of set, get and unset.
type setFlags struct {
	adminPort

	until time.Duration
}

// newSet returns the command that changes settings of a running daemon.
func newSet(s streams) *cobra.Command {
	o := &setFlags{adminPort: adminPort{s: s, verb: "set"}}
	cmd := &cobra.Command{
		Use:   "set INGRESS [KEY] NAME=VALUE...",
		Short: "Change a running daemon: an ingress, or one key for a time",
		Long: `Changes a running admitd. With a KEY, which need not have been seen yet, an
override of that one: rate (requests per second, unlimited = no bound, none =
nothing passes, exempt requests neither), burstSeconds (of the rate), limit
(permits, in place of the algorithm). It holds until 'admitd unset' or for the
time of --for, and a reload keeps it. What it does not name stays as an earlier
override of the key says.

Without a KEY, settings of the ingress by their names in the configuration, such
as mode or requests.rate, until the next reload.

Ends with 1 when the daemon refuses, and with 2 when it cannot be reached.`,
		Example:           "  admitd set orders tenant-00003 rate=100 --for 30m\n  admitd set orders tenant-00009 rate=none\n  admitd set orders mode=shadow requests.rate=500",
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: completeNames(&o.adminPort, true),
		RunE:              func(cmd *cobra.Command, args []string) error { return o.set(cmd.Context(), args) },
	}
	o.flags(cmd.Flags())
	cmd.Flags().DurationVar(&o.until, "for", 0, "how long an override holds; 0 = until it is undone")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// newGet returns the command that shows what is overridden.
func newGet(s streams) *cobra.Command {
	o := &setFlags{adminPort: adminPort{s: s, verb: "get"}}
	cmd := &cobra.Command{
		Use: "get INGRESS", Short: "Show which keys are overridden in a running daemon",
		Long: "Shows the overrides that are in force, with the ids by which 'admitd unset' takes them back.",
		Args: cobra.ExactArgs(1), ValidArgsFunction: completeNames(&o.adminPort, false),
		RunE: func(cmd *cobra.Command, args []string) error { return o.get(cmd.Context(), args[0]) },
	}
	o.flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// newUnset returns the command that takes an override back.
func newUnset(s streams) *cobra.Command {
	o := &setFlags{adminPort: adminPort{s: s, verb: "unset"}}
	cmd := &cobra.Command{
		Use: "unset INGRESS KEY|ID", Short: "Take back an override in a running daemon",
		Long: "Takes back the overrides of a key, or the one with that id. What is configured holds again, or what other overrides of the key say.",
		Args: cobra.ExactArgs(2), ValidArgsFunction: completeNames(&o.adminPort, true),
		RunE: func(cmd *cobra.Command, args []string) error { return o.unset(cmd.Context(), args[0], args[1]) },
	}
	o.flags(cmd.Flags())
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// set sends one patch.
func (o *setFlags) set(ctx context.Context, args []string) error {
	ingress, args := args[0], args[1:]
	key := ""
	if !strings.Contains(args[0], "=") {
		key, args = args[0], args[1:]
	}
	if !utf8.ValidString(key) {
		return fmt.Errorf("set: the key is no UTF-8: name it as the status shows it, such as %s (%q)", limiter.KeyName(key), key)
	}
	if len(args) == 0 {
		return errors.New("set: want at least one NAME=VALUE, such as rate=100")
	}
	if o.until != 0 && (key == "" || o.until < 0) {
		return fmt.Errorf("set: --for is for the override of a key, and above 0 (%v)", o.until)
	}
	body := map[string]any{}
	for _, a := range args {
		name, value, found := strings.Cut(a, "=")
		if !found || name == "" {
			return fmt.Errorf("set: want NAME=VALUE (%s)", a)
		}
		if err := put(body, strings.Split(name, "."), value); err != nil {
			return err
		}
	}
	if key != "" {
		if o.until > 0 {
			body["for"] = o.until.String()
		}
		body = map[string]any{"overrides": map[string]any{key: body}}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("set: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	answer, err := o.fetch(ctx, http.MethodPatch, "/v1/ingresses/"+url.PathEscape(ingress), string(b))
	if err != nil {
		return err
	}
	if o.json {
		_, err = o.s.out.Write(answer)
		return err
	}
	var done struct{ ID, Pending string }
	_ = json.Unmarshal(answer, &done) // without an id it was the ingress
	if done.Pending != "" {
		if _, err := fmt.Fprintf(o.s.err, "%s goes by it, and not yet the other gates: %s\n", ingress, done.Pending); err != nil {
			return err
		}
	}
	if done.ID == "" {
		_, err = fmt.Fprintf(o.s.out, "%s is changed until the next reload.\n", ingress)
		return err
	}
	_, err = fmt.Fprintf(o.s.out, "%s of %s is overridden (id %s)%s. To take it back: admitd unset %s %s\n", key, ingress, done.ID, ifSome(" for ", forText(o.until)), ingress, done.ID)
	return err
}

// forText words how long an override holds, "" without an end.
func forText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// unlimited is what a rate of 0 is called here: who types 0 may mean that nothing
// passes.
const unlimited = "unlimited"

// put enters a value under a path of names. What reads as a number is one.
func put(into map[string]any, path []string, value string) error {
	for _, name := range path[:len(path)-1] {
		below, ok := into[name].(map[string]any)
		if !ok {
			below = map[string]any{}
			into[name] = below
		}
		into = below
	}
	name := path[len(path)-1]
	f, err := strconv.ParseFloat(value, 64)
	switch {
	case name == "rate" && err == nil && f == 0:
		return fmt.Errorf("set: a rate of 0 lifts the bound, so that everything passes: say %s=unlimited, or none to let nothing of a key pass (%s)", strings.Join(path, "."), value)
	case err == nil:
		into[name] = f
	default:
		into[name] = value
	}
	return nil
}

// overrideRow is an override as the admin port tells it.
type overrideRow struct {
	ID, Key, By  string
	Rate         any
	BurstSeconds *float64
	Limit        *int
	At, Until    time.Time
}

// list asks what is overridden.
func (o *setFlags) list(ctx context.Context, ingress string) (all []overrideRow, done bool, err error) {
	var answer struct{ Overrides []overrideRow }
	done, err = o.ask(ctx, http.MethodGet, "/v1/ingresses/"+url.PathEscape(ingress)+"/overrides", &answer)
	return answer.Overrides, done, err
}

// get prints what is overridden.
func (o *setFlags) get(ctx context.Context, ingress string) error {
	all, done, err := o.list(ctx, ingress)
	if done || err != nil {
		return err
	}
	if len(all) == 0 {
		_, err := fmt.Fprintf(o.s.out, "Nothing is overridden in %s.\n", ingress)
		return err
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "ID\tKEY\tRATE\tBURST SECONDS\tLIMIT\tSINCE\tUNTIL\tBY\n")
	for _, v := range all {
		until := "undone"
		if !v.Until.IsZero() {
			until = v.Until.Local().Format(time.TimeOnly)
		}
		_, _ = fmt.Fprintf(w, "%s\t%s\t%v\t%s\t%s\t%s\t%s\t%s\n", v.ID, v.Key, rateText(v.Rate), or(deref(v.BurstSeconds)), or(deref(v.Limit)), v.At.Local().Format(time.TimeOnly), until, v.By)
	}
	return w.Flush()
}

// unset takes one override back, by its key or its id.
func (o *setFlags) unset(ctx context.Context, ingress, which string) error {
	port := *o
	port.json = false // of the question what there is
	all, _, err := port.list(ctx, ingress)
	if err != nil {
		return err
	}
	var ids []string
	for _, v := range slices.Backward(all) { // what lies over others first
		if v.Key == limiter.KeyName(which) {
			ids = append(ids, v.ID)
		}
	}
	if len(ids) == 0 {
		ids = []string{which}
	}
	for _, id := range ids {
		if done, err := o.ask(ctx, http.MethodDelete, "/v1/ingresses/"+url.PathEscape(ingress)+"/overrides/"+url.PathEscape(id), nil); err != nil {
			return err
		} else if done && id == ids[len(ids)-1] {
			return nil
		}
	}
	_, err = fmt.Fprintf(o.s.out, "Taken back: what is configured holds again for %s of %s.\n", which, ingress)
	return err
}

// rateText words the rate of an override.
func rateText(v any) string {
	if v == 0.0 {
		return unlimited
	}
	return or(v)
}

// or words a value that may not be there.
func or(v any) string {
	if v == nil {
		return "-"
	}
	return fmt.Sprint(v)
}

// deref returns what a pointer points to, nil for none.
func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}
