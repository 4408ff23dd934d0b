package labcmd

import (
	"fmt"
	"io"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/internal/lab/trace"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	config, ingress    string
	algorithms         []string
	workers            int
	service            time.Duration
	timeout, objective time.Duration
	seed               uint64
}

// newReplay returns the command that plays recorded traffic.
func newReplay(s streams) *cobra.Command {
	var o replayFlags
	cmd := &cobra.Command{
		Use:   "replay TRACE",
		Short: "Play recorded traffic through another configuration, in virtual time",
		Long: `Reads a trace that the gate recorded (trace.file of an ingress) and plays its
arrivals through other limits: had you run this, you would have refused so much,
at such a p99. The backend is a model: its workers and service time are estimated
from the trace, or given by --workers and --service.

The trace should reach into overload. Where it never did, the number of workers
is only a lower bound, and the command says so.`,
		Example: "  admitd lab replay orders.trace --config candidate.yaml\n  admitd lab replay orders.trace --algorithm vegas,aimd",
		Args:    cobra.ExactArgs(1),
		RunE:    func(_ *cobra.Command, args []string) error { return o.run(s, args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.config, "config", "", "configuration whose limits are the candidate")
	f.StringVar(&o.ingress, "ingress", "", "the ingress of the configuration; needed when it has several")
	f.StringSliceVar(&o.algorithms, "algorithm", nil, "limits with their defaults to play beside it, see 'admitd lab list'")
	f.IntVar(&o.workers, "workers", 0, "workers of the backend; 0 = estimate")
	f.DurationVar(&o.service, "service", 0, "time of one request; 0 = estimate")
	f.DurationVar(&o.timeout, "timeout", 0, "when clients give up; 0 = 1m")
	f.DurationVar(&o.objective, "objective", 100*time.Millisecond, "latency up to which an answer is good")
	f.Uint64Var(&o.seed, "seed", 1, "seed of what the trace leaves open")
	return cmd
}

// run replays one trace.
func (o *replayFlags) run(s streams, file string) error {
	recorded, err := ReadTrace(file)
	if err != nil {
		return err
	}
	model, err := Model(recorded, o.workers, o.service)
	if err != nil {
		return err
	}
	contenders, err := o.contenders(model)
	if err != nil {
		return err
	}
	PrintModel(s.out, recorded, model)
	results := []*measure.Result{lab.Recorded(recorded, o.objective)}
	for _, c := range contenders {
		r, err := lab.Replay(recorded, c, lab.ReplayOptions{Model: model, Timeout: o.timeout, Objective: o.objective, Seed: o.seed})
		if err != nil {
			return err
		}
		results = append(results, r)
	}
	return printReplay(s, results)
}

// Model returns the backend of a trace, as far as it is not given: 0 = estimate.
func Model(t *trace.Trace, workers int, service time.Duration) (trace.Model, error) {
	model := trace.Model{Workers: workers, Service: service, Saturated: true}
	if workers <= 0 || service <= 0 {
		var err error
		if model, err = t.Model(); err != nil {
			return model, err
		}
	}
	if workers > 0 {
		model.Workers = workers
	}
	if service > 0 {
		model.Service = service
	}
	return model, nil
}

// PrintModel says what is played, and before what.
func PrintModel(out io.Writer, t *trace.Trace, model trace.Model) {
	fmt.Fprintf(out, "trace: %d arrivals in %v, %d records lost\n", len(t.Arrivals), t.Span.Round(time.Millisecond), t.Lost)
	fmt.Fprintf(out, "model: %d workers, %v per request, so at most %.0f requests/s\n\n", model.Workers, model.Service.Round(10*time.Microsecond),
		float64(model.Workers)/model.Service.Seconds())
	if !model.Saturated {
		fmt.Fprintf(out, "note: throughput still grew where most was in flight; the backend may have more workers\n\n")
	}
}

// contenders returns the candidate and the algorithms that were asked for; all that
// the lab knows, when nothing was.
func (o *replayFlags) contenders(m trace.Model) ([]lab.Contender, error) {
	var list []lab.Contender
	if o.config != "" {
		c, err := candidate(o.config, o.ingress)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	backend := scenario.Scenario{Backend: scenario.BackendSpec{Workers: m.Workers}}
	backend.SetDefaults()
	all := lab.Contenders(&backend)
	for _, name := range o.algorithms {
		if !slices.ContainsFunc(all, func(c lab.Contender) bool { return c.Name == name }) {
			return nil, fmt.Errorf("lab: there is no algorithm %s; see 'admitd lab list'", name)
		}
	}
	for _, c := range all {
		if slices.Contains(o.algorithms, c.Name) || len(o.algorithms) == 0 && o.config == "" {
			list = append(list, c)
		}
	}
	return list, nil
}

// ReadTrace reads a trace file.
func ReadTrace(file string) (*trace.Trace, error) {
	f, err := os.Open(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	t, err := trace.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return t, nil
}

// printReplay prints what was and what would have been.
func printReplay(s streams, results []*measure.Result) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tanswered\tgood\tnot admitted\tfailed\tp50\tp99\tp99.9\t")
	for _, r := range results {
		v := r.Windows[0]
		n := float64(max(v.Offered, 1))
		fmt.Fprintf(w, "%s\t%.2f %%\t%.2f %%\t%.2f %%\t%.2f %%\t%v\t%v\t%v\t\n", r.Contender, 100*float64(v.Answered)/n, 100*float64(v.Good)/n,
			100*float64(v.Refused)/n, 100*float64(v.Failed)/n, Milliseconds(v.P50), Milliseconds(v.P99), Milliseconds(v.P999))
	}
	return w.Flush()
}

// Milliseconds rounds a latency in seconds for tables.
func Milliseconds(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Microsecond)
}
