package labcmd

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// newCeilings returns the command that computes what is possible.
func newCeilings(s streams) *cobra.Command {
	var from, out string
	var o runFlags
	cmd := &cobra.Command{
		Use:   "ceilings",
		Short: "Compute the best fixed limit of every scenario, variant and window",
		Long: `No limit can do much better than the best fixed one that was chosen in hindsight.
This plays many of them and writes the best of each window; the results of a run
are then shown as shares of it. What --from already knows of scenarios that have
not changed is kept.`,
		Example: "  admitd lab ceilings --from internal/lab/ceilings.json --out internal/lab/ceilings.json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			scenarios, err := o.load()
			if err != nil {
				return err
			}
			known := scenario.Ceilings{}
			if from != "" {
				b, err := os.ReadFile(from) //nolint:gosec // the user names the file
				if err != nil {
					return err
				}
				if known, err = scenario.ReadCeilings(b); err != nil {
					return err
				}
			}
			bar := newProgress(s, "searching")
			defer bar.clear()
			suite := lab.Suite{Scenarios: scenarios, Variants: o.variants, Full: o.full, Progress: func(done, of int) {
				bar.set(done, of)
			}}
			found, err := lab.RefreshCeilings(cmd.Context(), known, &suite)
			if err != nil {
				return err
			}
			if out == "" {
				return found.Write(s.out)
			}
			return writeFile(out, func(f *os.File) error { return found.Write(f) })
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.scenarios, "scenario", nil, "shipped scenarios, by name; none = all")
	_ = cmd.RegisterFlagCompletionFunc("scenario", completeScenarios)
	f.StringSliceVar(&o.files, "file", nil, "scenario files instead of the shipped ones")
	f.StringSliceVar(&o.variants, "variant", nil, "variants to compute, by name or part of it; none = all")
	f.BoolVar(&o.full, "full", false, "also of the variants that are left out for the time they take")
	f.StringVar(&from, "from", "", "ceilings that are known already")
	f.StringVar(&out, "out", "", "write to this file instead of stdout")
	return cmd
}
