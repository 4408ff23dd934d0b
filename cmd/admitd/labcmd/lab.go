// Package labcmd is `admitd lab`: the commands of the overload lab.
package labcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// ErrNotKept is wrapped by the error of a run that does not keep its criteria.
var ErrNotKept = errors.New("criteria are not kept")

// streams are where a command writes.
type streams struct{ out, err io.Writer }

// New returns the command, which writes results to out and the rest to err.
func New(out, err io.Writer) *cobra.Command {
	s := streams{out, err}
	cmd := &cobra.Command{
		Use:   "lab",
		Short: "Prove what limits do, in virtual time and on live backends",
		Long: `The overload lab plays scenarios (a backend, a load, what goes wrong, what must
hold) against limits. 'run' does so in virtual time with the real limiter and
client code, hours of traffic in seconds, the same result for the same seed;
'live' sends the same scenarios to a running gate; 'replay' plays recorded
traffic through another configuration.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newList(s), newRun(s), newCompare(s), newReport(s), newLive(s), newReplay(s), newCeilings(s), newBackend(s), newFalsify(s))
	return cmd
}

// newList returns the command that lists the scenarios.
func newList(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the scenarios, their variants and the algorithms",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			scenarios, err := lab.Shipped()
			if err != nil {
				return err
			}
			for _, sc := range scenarios {
				about, _, _ := strings.Cut(sc.About, ". ")
				fmt.Fprintf(s.out, "%s: %s.\n    %s\n", sc.Name, strings.TrimSuffix(about, "."), variantNames(sc))
			}
			_, err = fmt.Fprintf(s.out, "\nalgorithms: none (no gate at all), fixed-tuned (a fixed limit of twice the workers), knee+queue (the default: knee and the automatic queue), %s\n", strings.Join(scenario.Ours(), ", "))
			return err
		},
	}
}

// variantNames lists the variants of a scenario, those of a sweep by its axes.
func variantNames(sc *scenario.Scenario) string {
	names := func(list []scenario.Variant) string {
		var out []string
		for i := range list {
			out = append(out, list[i].Name)
		}
		return strings.Join(out, ", ")
	}
	if len(sc.Sweep) == 0 {
		return names(sc.Variants)
	}
	var axes []string
	for _, axis := range sc.Sweep {
		axes = append(axes, names(axis))
	}
	return strings.Join(axes, "\n  / ")
}

// runFlags are the flags that choose runs.
type runFlags struct {
	scenarios, files, variants, algorithms []string
	seed                                   uint64
	seeds                                  int
	config, ingress                        string
	json, html, results, peers, targets    string
	full, quiet                            bool
}

// choose adds the flags that choose runs.
func (o *runFlags) choose(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&o.scenarios, "scenario", nil, "shipped scenarios to play, by name, the worst that were found too; none = the suite")
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	f.StringSliceVar(&o.files, "file", nil, "scenario files to play instead of the shipped ones")
	f.StringSliceVar(&o.variants, "variant", nil, "variants to play, by name or part of it; none = all")
	f.BoolVar(&o.full, "full", false, "also play the variants that are left out for the time they take")
	f.StringSliceVar(&o.algorithms, "algorithm", nil, "contenders to play; none = all, see 'admitd lab list'")
	f.Uint64Var(&o.seed, "seed", 1, "first seed")
	f.IntVar(&o.seeds, "seeds", 0, "runs of each; 0 = what the scenario says")
	f.StringVar(&o.config, "config", "", "a configuration file whose limits compete too, as 'candidate'")
	f.StringVar(&o.ingress, "ingress", "", "the ingress of the configuration; needed when it has several")
	f.BoolVar(&o.quiet, "quiet", false, "show no progress")
}

// outputs adds the flags that say where results go.
func (o *runFlags) outputs(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.json, "json", "", "write the report as JSON to this file")
	f.StringVar(&o.html, "html", "", "write the report as one HTML page with plots to this file")
	f.StringVar(&o.targets, "targets", "", "write what the default reaches of its targets, Markdown, to this file")
	f.StringVar(&o.results, "results", "", "write the result of every run to this file, for compare and report")
	f.StringVar(&o.peers, "peers", "", "add results from this file, such as those of other libraries")
}

// newRun returns the command that plays scenarios.
func newRun(s streams) *cobra.Command {
	var o runFlags
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Play scenarios in virtual time and judge them by their pass criteria",
		Long: `Plays every chosen variant for every contender and seed and prints tables and
verdicts. Exit status 1 when a criterion is not kept.`,
		Example: "  admitd lab run --scenario brownout\n  admitd lab run --scenario steady --variant 2x --algorithm vegas --seed 7 --seeds 1\n" +
			"  admitd lab run --scenario baseline --config admitd.yaml --html report.html",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := o.play(cmd, s)
			if err != nil {
				return err
			}
			if err := rep.WriteText(s.out); err != nil {
				return err
			}
			return o.verdict(rep)
		},
	}
	o.choose(cmd)
	o.outputs(cmd)
	return cmd
}

// play plays what was chosen and writes the files that were asked for.
func (o *runFlags) play(cmd *cobra.Command, s streams) (*report.Report, error) {
	scenarios, err := o.load()
	if err != nil {
		return nil, err
	}
	suite, err := o.suite(scenarios)
	if err != nil {
		return nil, err
	}
	if err := o.canWrite(); err != nil {
		return nil, err
	}
	if !o.quiet {
		bar := newProgress(s, "playing")
		defer bar.clear()
		suite.Progress = func(done, of int) {
			bar.set(done, of)
		}
	}
	results, err := suite.Run(cmd.Context())
	if err != nil {
		return nil, err
	}
	if o.results != "" {
		if err := writeFile(o.results, func(f *os.File) error { return measure.Write(f, results) }); err != nil {
			return nil, err
		}
	}
	if o.peers != "" {
		peers, err := readResults(o.peers)
		if err != nil {
			return nil, err
		}
		results = append(results, o.chosen(peers)...)
	}
	return o.sum(scenarios, results)
}

// suite returns what of the scenarios is played, and with which contenders.
func (o *runFlags) suite(scenarios []*scenario.Scenario) (*lab.Suite, error) {
	suite := &lab.Suite{
		Scenarios: scenarios, Variants: o.variants, Contenders: o.algorithms, Full: o.full,
		Seeds: o.seeds, FirstSeed: o.seed,
	}
	if o.config == "" {
		return suite, nil
	}
	candidate, err := candidate(o.config, o.ingress)
	if err != nil {
		return nil, err
	}
	suite.More = append(suite.More, candidate)
	if len(suite.Contenders) > 0 {
		suite.Contenders = append(suite.Contenders, candidate.Name)
	}
	return suite, nil
}

// sum sums results up and writes the files that were asked for.
func (o *runFlags) sum(scenarios []*scenario.Scenario, results []*measure.Result) (*report.Report, error) {
	if err := report.Fit(scenarios, results); err != nil {
		return nil, err
	}
	rep := report.New(scenarios, results)
	return rep, o.write(rep)
}

// canWrite tells of a directory that is not there before minutes of playing are lost
// to it.
func (o *runFlags) canWrite() error {
	for _, name := range []string{o.json, o.html, o.targets, o.results} {
		if name == "" {
			continue
		}
		if _, err := os.Stat(filepath.Dir(name)); err != nil {
			return fmt.Errorf("lab: %s cannot be written: %w", name, err)
		}
	}
	return nil
}

// chosen returns the results of variants that were asked for.
func (o *runFlags) chosen(list []*measure.Result) []*measure.Result {
	return slices.DeleteFunc(list, func(r *measure.Result) bool {
		return len(o.variants) > 0 && !slices.Contains(o.variants, r.Variant)
	})
}

// write writes the report's files.
func (o *runFlags) write(rep *report.Report) error {
	if o.json != "" {
		if err := writeFile(o.json, func(f *os.File) error { return rep.WriteJSON(f) }); err != nil {
			return err
		}
	}
	if o.targets != "" {
		if err := writeFile(o.targets, func(f *os.File) error { return rep.WriteTargets(f) }); err != nil {
			return err
		}
	}
	if o.html != "" {
		return writeFile(o.html, func(f *os.File) error { return rep.WriteHTML(f) })
	}
	return nil
}

// verdict returns the exit status of a report.
func (*runFlags) verdict(rep *report.Report) error {
	if failed := rep.Failed(); len(failed) > 0 {
		return fmt.Errorf("lab: %d of %d %w", len(failed), len(rep.Verdicts), ErrNotKept)
	}
	return nil
}

// load returns the chosen scenarios.
func (o *runFlags) load() ([]*scenario.Scenario, error) {
	if len(o.files) > 0 {
		return loadScenarios(o.files)
	}
	all, err := lab.Shipped()
	if err != nil || len(o.scenarios) == 0 {
		return all, err
	}
	worst, err := lab.Worst()
	if err != nil {
		return nil, err
	}
	all = append(all, worst...)
	var list []*scenario.Scenario
	for _, name := range o.scenarios {
		i := slices.IndexFunc(all, func(s *scenario.Scenario) bool { return s.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("lab: there is no scenario %s; see 'admitd lab list'", name)
		}
		list = append(list, all[i])
	}
	return list, nil
}

// loadScenarios reads scenario files.
func loadScenarios(files []string) ([]*scenario.Scenario, error) {
	var list []*scenario.Scenario
	for _, file := range files {
		b, err := os.ReadFile(file) //nolint:gosec // the user names the file
		if err != nil {
			return nil, err
		}
		s, err := scenario.Parse(b)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		list = append(list, s)
	}
	return list, nil
}

// readResults reads a file that --results wrote.
func readResults(file string) ([]*measure.Result, error) {
	f, err := os.Open(file) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	defer f.Close()
	list, err := measure.Read(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return list, nil
}

// writeFile writes a file as a whole.
func writeFile(name string, write func(*os.File) error) error {
	f, err := os.Create(name) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		_ = f.Close() // the first error is the one to tell
		return err
	}
	return f.Close()
}

// progress shows on stderr, where that is a terminal, how far something is. It is
// safe for concurrent use.
type progress struct {
	w    io.Writer // nil = nowhere
	what string

	mu    sync.Mutex // guards the fields below
	shown time.Time
}

// newProgress returns one that shows nothing yet.
func newProgress(s streams, what string) *progress {
	p := &progress{what: what}
	if f, isFile := s.err.(*os.File); isFile && term.IsTerminal(int(f.Fd())) {
		p.w = f
	}
	return p
}

// set shows that so many of all are done, five times a second at most.
func (p *progress) set(done, of int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil && time.Since(p.shown) >= 200*time.Millisecond {
		p.shown = time.Now()
		_, _ = fmt.Fprintf(p.w, "\r\x1b[K%s %d/%d", p.what, done, of) // cosmetics
	}
}

// clear takes away what was shown.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.w != nil && !p.shown.IsZero() {
		_, _ = fmt.Fprint(p.w, "\r\x1b[K") // cosmetics
	}
}

// completeScenarios completes the names of the lab's scenarios.
func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	all, _ := lab.Shipped() // none are then completed
	names := make([]string, 0, len(all))
	for _, s := range all {
		names = append(names, s.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
