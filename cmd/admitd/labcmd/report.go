package labcmd

import (
	"fmt"
	"math"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/lab/report"
)

// newReport returns the command that writes the results as a document.
func newReport(s streams) *cobra.Command {
	var o runFlags
	var out, from, insert string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Play the suite, or read its results, and write the document and the page",
		Example: "  admitd lab report --out docs/lab/results.md --html report.html\n" +
			"  admitd lab report --from results.json --peers docs/lab/peers.json --html report.html",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rep, err := o.gather(cmd, s, from)
			if err != nil {
				return err
			}
			if insert != "" {
				if err := insertHeadlines(insert, rep); err != nil {
					return err
				}
			}
			if out == "" {
				return rep.WriteMarkdown(s.out, report.Findings())
			}
			if err := writeFile(out, func(f *os.File) error { return rep.WriteMarkdown(f, report.Findings()) }); err != nil {
				return err
			}
			for _, v := range rep.Failed() {
				fmt.Fprintln(s.err, v.String())
			}
			return o.verdict(rep)
		},
	}
	o.choose(cmd)
	o.outputs(cmd)
	cmd.Flags().StringVar(&out, "out", "", "write the document, Markdown, to this file instead of stdout")
	cmd.Flags().StringVar(&insert, "insert", "", "also put the table of what happens into this file, between its lines "+headlinesBegin+" and "+headlinesEnd)
	cmd.Flags().StringVar(&from, "from", "", "read results of a run instead of playing")
	return cmd
}

// The lines of a document between which the table of what happens stands.
const (
	headlinesBegin = "<!-- lab: begin -->"
	headlinesEnd   = "<!-- lab: end -->"
)

// inserted are the contenders in the table of another document, which should not
// be too wide.
func inserted() []string {
	return []string{
		"knee+queue", "knee", "vegas", "gradient2", "aimd", "fixed", "none", "failsafe-go", "gcl-vegas", "gcl-gradient2", "envoy-gradient", "aegis-bbr",
	}
}

// insertHeadlines replaces the table in a document.
func insertHeadlines(file string, rep *report.Report) error {
	b, err := os.ReadFile(file) //nolint:gosec // the user names the file
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(b), headlinesBegin+"\n")
	_, after, ends := strings.Cut(rest, headlinesEnd)
	if !begins || !ends {
		return fmt.Errorf("lab: %s has no lines %s and %s", file, headlinesBegin, headlinesEnd)
	}
	return writeFile(file, func(f *os.File) error {
		if _, err := f.WriteString(before + headlinesBegin + "\n\n"); err != nil {
			return err
		}
		if err := rep.WriteHeadlines(f, inserted()); err != nil {
			return err
		}
		_, err := f.WriteString("\n" + headlinesEnd + after)
		return err
	})
}

// gather plays the suite or reads its results.
func (o *runFlags) gather(cmd *cobra.Command, s streams, from string) (*report.Report, error) {
	if from == "" {
		return o.play(cmd, s)
	}
	scenarios, err := o.load()
	if err != nil {
		return nil, err
	}
	results, err := readResults(from)
	if err != nil {
		return nil, err
	}
	if o.peers != "" {
		peers, err := readResults(o.peers)
		if err != nil {
			return nil, err
		}
		results = append(results, peers...)
	}
	return o.sum(scenarios, results)
}

// newCompare returns the command that compares two sets of results.
func newCompare(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "compare BEFORE AFTER",
		Short: "Compare the results of two runs",
		Long: `Prints every measure whose mean changed by more than the seeds differ among
themselves. Both files come from 'admitd lab run --results'.`,
		Example: "  admitd lab run --results before.json\n  admitd lab run --results after.json\n  admitd lab compare before.json after.json",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			before, err := readResults(args[0])
			if err != nil {
				return err
			}
			after, err := readResults(args[1])
			if err != nil {
				return err
			}
			changes, compared := report.Compare(before, after)
			if compared == 0 {
				return fmt.Errorf("lab: %s and %s have no variant and contender in common", args[0], args[1])
			}
			w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
			for _, c := range changes {
				fmt.Fprintf(w, "%s, %s\t%s\t%s\t%s\t%.4g\t%.4g\t%s\n", c.Scenario, c.Variant, c.Window, c.Contender, c.Measure,
					c.Before, c.After, percentChange(c.Before, c.After))
			}
			if err := w.Flush(); err != nil {
				return err
			}
			fmt.Fprintf(s.out, "%d measures changed\n", len(changes))
			return nil
		},
	}
}

// percentChange renders a change.
func percentChange(before, after float64) string {
	if before == 0 || math.IsInf(before, 0) {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*(after-before)/before)
}
