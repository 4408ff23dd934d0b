package labcmd

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/labels"
)

// liveFlags are the flags of live.
type liveFlags struct {
	target, scenario, file, variant string
	tenantHeader, onHealth          string
	capacity                        float64
	seed                            uint64
	quiet                           bool
}

// newLive returns the command that drives a running gate.
func newLive(s streams) *cobra.Command {
	var o liveFlags
	cmd := &cobra.Command{
		Use:   "live --target URL",
		Short: "Drive a running gate with a scenario in real time",
		Long: `Sends a scenario's arrivals to a gate over HTTP, open loop: every request when it
is due, whatever the answers are, with latency counted from that moment. A load
of 1 is --capacity requests per second; left out, what the scenario's backend
can serve, which 'admitd lab backend' is.

The lab cannot make your own backend slow. Where the scenario changes its health,
--on-health runs a command with LAB_SLOW, LAB_DELAY and LAB_FROZEN set; without
it, the change is announced and left to you.

A run in which more than 0.1 % of the requests could not be sent on time is void:
it proves nothing, and the exit status is 1.`,
		Example: "  admitd lab live --target http://127.0.0.1:8462/ --capacity 800 --scenario steady --variant 2x",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&o.target, "target", "", "URL that requests are sent to, with GET")
	f.Float64Var(&o.capacity, "capacity", 0, "requests per second that the backend can serve; 0 = as the scenario's")
	f.StringVar(&o.scenario, "scenario", "steady", "shipped scenario, by name")
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	f.StringVar(&o.file, "file", "", "scenario file instead of a shipped one")
	f.StringVar(&o.variant, "variant", "", "variant; none = the first")
	f.StringVar(&o.tenantHeader, "tenant-header", "X-Tenant", "header that carries the tenant, where the scenario has tenants")
	f.StringVar(&o.onHealth, "on-health", "", "shell command to run when the backend's health is to change")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the arrivals")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	_ = cmd.MarkFlagRequired("target") // it was defined above
	return cmd
}

// pick returns the scenario and its chosen variant.
func (o *liveFlags) pick() (whole, run *scenario.Scenario, err error) {
	choice := runFlags{scenarios: []string{o.scenario}}
	if o.file != "" {
		choice.files = []string{o.file}
	}
	list, err := choice.load()
	if err != nil {
		return nil, nil, err
	}
	whole = list[0]
	if o.variant == "" {
		o.variant = whole.Variants[0].Name
	}
	run, ok := whole.Variant(o.variant)
	if !ok {
		return nil, nil, fmt.Errorf("lab: scenario %s has no variant %s", whole.Name, o.variant)
	}
	return whole, run, nil
}

// run drives the gate and prints what came of it.
func (o *liveFlags) run(ctx context.Context, s streams) error {
	whole, run, err := o.pick()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(o.target, "http://") && !strings.HasPrefix(o.target, "https://") {
		return fmt.Errorf("lab: target must be an http:// or https:// URL (%s)", o.target)
	}
	send, stop, err := o.driver(run)
	if err != nil {
		return err
	}
	defer stop()
	if o.capacity == 0 {
		o.capacity = run.Backend.Capacity()
	}
	live := lab.Live{
		Scenario: run, Capacity: o.capacity, Seed: o.seed, Send: send,
		Health: func(h scenario.HealthStep) { o.health(ctx, s, h) },
	}
	if !o.quiet {
		bar := newProgress(s, whole.Name+", "+o.variant+", seconds")
		defer bar.clear()
		live.Progress = func(elapsed time.Duration) { bar.set(int(elapsed.Seconds()), int(time.Duration(run.For).Seconds())) }
	}
	out, err := live.Run(ctx)
	if err != nil {
		return err
	}
	rep := report.New([]*scenario.Scenario{whole}, []*measure.Result{out.Result})
	if err := rep.WriteText(s.out); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "\n%d sends scheduled, %d missed (%.3f %%)\n", out.Scheduled, out.Missed, 100*float64(out.Missed)/float64(max(out.Scheduled, 1)))
	if out.Void() {
		return errors.New("lab: the run is void: the schedule was not kept, so its figures prove nothing")
	}
	return nil
}

// health has the backend's health changed.
func (o *liveFlags) health(ctx context.Context, s streams, h scenario.HealthStep) {
	slow := h.Slow
	if slow == 0 {
		slow = 1
	}
	fmt.Fprintf(s.err, "\nbackend: services take %g times as long, %v more delay, frozen %v\n", slow, time.Duration(h.Delay), h.Frozen)
	if o.onHealth == "" {
		return
	}
	c := exec.CommandContext(ctx, "sh", "-c", o.onHealth) //nolint:gosec // the user's own command
	c.Env = append(os.Environ(), fmt.Sprintf("LAB_SLOW=%g", slow), fmt.Sprintf("LAB_DELAY=%v", time.Duration(h.Delay)), fmt.Sprintf("LAB_FROZEN=%v", h.Frozen))
	c.Stdout, c.Stderr = s.err, s.err
	go func() { // the schedule does not wait for it
		if err := c.Run(); err != nil {
			fmt.Fprintf(s.err, "on-health: %v\n", err)
		}
	}()
}

// driver returns a sender over HTTP that retries as the scenario's clients do.
func (o *liveFlags) driver(run *scenario.Scenario) (send func(context.Context, string) openloop.Sent, stop func(), err error) {
	policy, err := run.Clients.ClientPolicy(nil)
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(client.Options{Policy: &policy})
	if err != nil {
		return nil, nil, err
	}
	base := &http.Transport{MaxIdleConnsPerHost: 4096, IdleConnTimeout: 10 * time.Second}
	var rt http.RoundTripper = base
	if run.Clients.TellDeadline {
		rt = deadlineTransport{base}
	}
	sender := openloop.NewHTTPSender(c, rt)
	send = func(ctx context.Context, key string) openloop.Sent {
		header := o.tenantHeader
		if key == "" {
			header = ""
		}
		return sender.Send(ctx, o.target, header, key)
	}
	return send, base.CloseIdleConnections, nil
}

// deadlineTransport tells the gate how long the caller will wait.
type deadlineTransport struct{ next http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (t deadlineTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if until, ok := r.Context().Deadline(); ok {
		r = r.Clone(r.Context())
		r.Header.Set(labels.HeaderDeadline, strconv.FormatInt(max(time.Until(until).Milliseconds(), 1), 10))
	}
	return t.next.RoundTrip(r)
}
