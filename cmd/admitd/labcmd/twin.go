package labcmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/demo"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/openloop"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
)

// twinFlags are the flags of twin.
type twinFlags struct {
	liveFlags
	protocol, limit string
	goodput, limits float64
}

// newTwin returns the command that plays a scenario both ways.
func newTwin(s streams) *cobra.Command {
	var o twinFlags
	cmd := &cobra.Command{
		Use:   "twin",
		Short: "Play a scenario live and in virtual time, and compare the two",
		Long: `Plays one variant twice with the same arrivals: live, through a gate of this
program, over sockets, before the scenario's backend, which speaks the protocol;
and in virtual time. Prints what both did, window by window. Exit status 1 when
goodput or the mean limit differ by more than they may.

It takes as long as the scenario. A machine that is busy makes the live run void.`,
		Example: "  admitd lab twin --scenario steady --variant 2x\n  admitd lab twin --protocol postgres --scenario slower --variant '÷2.5 / the backend continues'",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.StringVar(&o.protocol, "protocol", "http", "http, mongodb or postgres")
	f.StringVar(&o.scenario, "scenario", "steady", "shipped scenario, by name")
	f.StringVar(&o.file, "file", "", "scenario file instead of a shipped one")
	f.StringVar(&o.variant, "variant", "", "variant; none = the first")
	f.StringVar(&o.limit, "algorithm", "knee", "limit of the gate, with the automatic queue")
	f.Float64Var(&o.goodput, "goodput", 0.05, "difference of goodput that is allowed, as a share of the capacity")
	f.Float64Var(&o.limits, "limits", 0.2, "difference of the mean limit that is allowed, as a share of it")
	f.Uint64Var(&o.seed, "seed", 1, "seed of the arrivals and service times")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
	return cmd
}

// run plays both and compares.
func (o *twinFlags) run(ctx context.Context, s streams) error {
	run, err := o.playable()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	backend, err := o.serve(ctx, lab.NewLiveBackend(ctx, run, o.seed))
	if err != nil {
		return err
	}
	cfg, err := o.configuration(run, backend)
	if err != nil {
		return err
	}
	d, err := daemon.New(cfg, daemon.Options{Log: s.err})
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-d.Up():
	}
	live, err := o.live(ctx, s, run, d)
	cancel()
	if stopped := <-ended; err == nil {
		err = stopped
	}
	if err != nil {
		return err
	}
	twin, err := Contender(&cfg.Ingresses[0])
	if err != nil {
		return err
	}
	virtual, err := lab.Play(run, twin, o.seed, lab.PlayOptions{})
	if err != nil {
		return err
	}
	apart := o.compare(s.out, live.Result, virtual)
	switch {
	case live.Void():
		return fmt.Errorf("lab: the live run is void: %d of %d requests were not sent on time", live.Missed, live.Scheduled)
	case len(apart) > 0:
		return errors.New("lab: live and virtual time differ: " + strings.Join(apart, ", "))
	}
	return nil
}

// playable returns the variant, when it can be played over the protocol.
func (o *twinFlags) playable() (*scenario.Scenario, error) {
	_, run, err := o.pick()
	switch {
	case err != nil:
		return nil, err
	case o.protocol != "http" && run.Backend.Cancelled == scenario.Stops:
		return nil, fmt.Errorf("lab: the backend of variant %s stops when its caller leaves, which only --protocol http can tell it", o.variant)
	case run.Tenants.Count > 0 || run.Tenants.Noisy > 0:
		return nil, fmt.Errorf("lab: scenario %s has tenants, which a twin has not", run.Name)
	}
	return run, nil
}

// serve has the backend listen, and returns its address as a configuration
// writes it.
func (o *twinFlags) serve(ctx context.Context, b *lab.LiveBackend) (address string, err error) {
	var serve func(context.Context, net.Listener) error
	scheme := ""
	switch o.protocol {
	case "http":
		scheme = "http://"
		serve = func(ctx context.Context, l net.Listener) error {
			srv := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
			defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
			return srv.Serve(l)
		}
	case "mongodb":
		serve = modelmongo.NewFor(b.Work).Serve
	case "postgres":
		serve = modelpostgres.NewFor(b.Work).Serve
	default:
		return "", fmt.Errorf("lab: --protocol must be http, mongodb or postgres (%s)", o.protocol)
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("lab: %w", err)
	}
	go func() { _ = serve(ctx, l) }() // ends with ctx
	return scheme + l.Addr().String(), nil
}

// configuration returns that of a gate with the limit and nothing else set.
func (o *twinFlags) configuration(run *scenario.Scenario, backend string) (*config.Config, error) {
	abandon := "finish"
	if run.Backend.Cancelled == scenario.Stops {
		abandon = "cancel"
	}
	text := fmt.Sprintf(`{"log": {"level": "error"}, "admin": {"listen": "127.0.0.1:0"}, "ingresses": [{"name": "lab", "protocol": %q,
		"listen": "127.0.0.1:0", "backend": %q, "drainTimeout": "1s", "abandon": %q,
		"partitions": {"default": {"limit": {"algorithm": %q}, "queue": "auto"}}}]}`, o.protocol, backend, abandon, o.limit)
	return config.Parse("twin", []byte(text), nil)
}

// live plays the scenario over sockets.
func (o *twinFlags) live(ctx context.Context, s streams, run *scenario.Scenario, d *daemon.Daemon) (*lab.LiveResult, error) {
	send, stop, err := o.sender(run, d.Address("lab").String())
	if err != nil {
		return nil, err
	}
	defer stop()
	live := lab.Live{
		Scenario: run, Capacity: run.Backend.Capacity(), Seed: o.seed, Send: send,
		Limit: func() int { return d.Gate("lab").Status().Partitions[0].Limit },
	}
	if !o.quiet {
		bar := newProgress(s, run.Name+", "+o.variant+", seconds")
		defer bar.clear()
		live.Progress = func(elapsed time.Duration) { bar.set(int(elapsed.Seconds()), int(time.Duration(run.For).Seconds())) }
	}
	return live.Run(ctx)
}

// sender returns what sends a request of the protocol.
func (o *twinFlags) sender(run *scenario.Scenario, gate string) (send func(context.Context, string) openloop.Sent, stop func(), err error) {
	if o.protocol == "http" {
		o.target = "http://" + gate + "/"
		return o.driver(run)
	}
	policy, err := run.Clients.ClientPolicy(nil)
	if err != nil {
		return nil, nil, err
	}
	one, stop, err := demo.Sender(o.protocol, gate, policy)
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, _ string) openloop.Sent { return one(ctx) }, stop, nil
}

// compare prints both, and returns where they differ by more than they may.
func (o *twinFlags) compare(out io.Writer, live, virtual *measure.Result) (apart []string) {
	fmt.Fprintf(out, "%s, %s, over %s\n\n", live.Scenario, o.variant, o.protocol)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "window\tmeasure\tlive\tvirtual\tdifference\t")
	for i := range live.Windows {
		name := live.Windows[i].Name
		for _, m := range []string{"goodput", "limit", "good", "refused", "failed", "p50", "p99"} {
			a, _ := live.At(m, i) // it is one of the measures
			b, _ := virtual.At(m, i)
			mark := ""
			if m == "goodput" && math.Abs(a-b) > o.goodput || m == "limit" && math.Abs(a-b) > o.limits*b {
				apart = append(apart, fmt.Sprintf("%s in window %s", m, name))
				mark = "*"
			}
			fmt.Fprintf(t, "%s\t%s\t%.3f\t%.3f\t%+.3f%s\t\n", name, m, a, b, a-b, mark)
		}
	}
	_ = t.Flush() // a broken pipe ends the command anyway
	return apart
}
