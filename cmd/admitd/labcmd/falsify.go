package labcmd

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/lab/falsify"
)

// newFalsify returns the command that searches for the worst scenarios.
func newFalsify(s streams) *cobra.Command {
	var search falsify.Search
	var asJSON, dir string
	cmd := &cobra.Command{
		Use:   "falsify",
		Short: "Search for the scenarios in which the default limit does worst",
		Long: `Searches over backends, loads, callers and faults, in virtual time, for what the
default limit does worst: little answered in time in an overload, beside the best
fixed limit that was chosen in hindsight, and much refused while the backend could
serve all. Each round draws scenarios at random and moves the worst of them in
small steps as long as it becomes worse. What is found is played again with other
seeds, and written as scenario files, which 'admitd lab run --file' plays; their
criteria fail as long as the default does as badly. A round depends on the seed
and its number alone: with --rounds instead of --for the results are the same on
every machine.`,
		Example: "  admitd lab falsify --for 3m --out found\n  admitd lab falsify --for 0s --rounds 6 --seed 7 --json found.json\n" +
			"  admitd lab run --file found/goodput-1-0.yaml --algorithm none,fixed-tuned,knee+queue",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, name := range []string{filepath.Dir(asJSON), filepath.Dir(dir)} {
				if _, err := os.Stat(name); err != nil {
					return fmt.Errorf("lab: what is found cannot be written: %w", err)
				}
			}
			rep, err := search.Run(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON != "" {
				if err := writeFile(asJSON, func(f *os.File) error { return writeFalsified(f, rep) }); err != nil {
					return err
				}
			}
			if dir != "" {
				if err := keepFinds(dir, rep); err != nil {
					return err
				}
			}
			return showFinds(s.out, rep, dir)
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&search.Seed, "seed", 1, "seed of the search")
	f.DurationVar(&search.For, "for", 3*time.Minute, "how long to search, before what was found is verified; 0 = until --rounds are made")
	f.IntVar(&search.Rounds, "rounds", 0, "rounds to make at most; 0 = until --for is over")
	f.IntVar(&search.Workers, "workers", 0, "rounds that are made at a time; 0 = 2")
	f.StringVar(&dir, "out", "", "write what is found to this directory, one scenario file each")
	f.StringVar(&asJSON, "json", "", "write the report as JSON to this file")
	return cmd
}

// writeFalsified writes the report as JSON.
func writeFalsified(w io.Writer, rep *falsify.Report) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(rep)
}

// keepFinds writes the scenario files.
func keepFinds(dir string, rep *falsify.Report) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, list := range [][]falsify.Find{rep.Goodput, rep.FalseRefused} {
		for i := range list {
			if err := os.WriteFile(filepath.Join(dir, list[i].Name+".yaml"), []byte(list[i].Scenario), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

// showFinds prints what was found, and, where no files were written, the worst of
// each kind as a file.
func showFinds(out io.Writer, rep *falsify.Report, dir string) error {
	fmt.Fprintf(out, "%d scenarios in %d rounds, seed %d\n\n", rep.Scenarios, rep.Rounds, rep.Seed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "goodput\tof the best fixed limit\tdefault\tbest fixed\tits limit\tthe default's")
	for i := range rep.Goodput {
		f := &rep.Goodput[i]
		fmt.Fprintf(w, "%s\t%.3f\t%.3f\t%.3f\t%d\t%.1f\n", f.Name, f.Share, f.Goodput, f.Ceiling, f.Limit, f.DefaultMean)
	}
	fmt.Fprintln(w, "\nfalse refusals\tdefault\tbest fixed\tits limit\tthe default's")
	for i := range rep.FalseRefused {
		f := &rep.FalseRefused[i]
		fmt.Fprintf(w, "%s\t%.2f %%\t%.2f %%\t%d\t%.1f\n", f.Name, 100*f.FalseRefused, 100*f.FixedRefused, f.Limit, f.DefaultMean)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if dir != "" {
		return nil
	}
	for _, list := range [][]falsify.Find{rep.Goodput, rep.FalseRefused} {
		if len(list) > 0 {
			fmt.Fprintf(out, "\n# %s.yaml\n%s", list[0].Name, list[0].Scenario)
		}
	}
	return nil
}
