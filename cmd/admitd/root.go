package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/cmd/admitd/labcmd"
	"github.com/admitd/admitd/internal/config"
)

// streams are where a command writes.
type streams struct{ out, err io.Writer }

// exitError ends the program with a code of its own. A nil err was reported
// already.
type exitError struct {
	code int
	err  error
}

// Error implements error.
func (e exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns what went wrong.
func (e exitError) Unwrap() error { return e.err }

// run executes one command line.
func run(ctx context.Context, args []string, s streams) error {
	root := newRoot(s) //nolint:contextcheck // cobra hands the context to the command that runs
	root.SetArgs(args)
	return root.ExecuteContext(ctx)
}

// newRoot returns the command line.
func newRoot(s streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "admitd",
		Short: "Admission control in front of databases and queues",
		Long: `admitd stands in front of a database or a queue and decides, request by
request, what may pass. It keeps the backend at its best throughput and refuses
the excess at once, with an error that clients know how to obey.

Begin with 'admitd demo': it overloads a small backend, first without the gate
and then behind it, and prints what happened. Then write a configuration, check
it with 'admitd check FILE' and run it with 'admitd serve --config FILE'.`,
		SilenceUsage: true, SilenceErrors: true,
	}
	root.SetOut(s.out)
	root.SetErr(s.err)
	root.AddCommand(newServe(s), newCheck(s), newSchema(s), newVersion(s), newMan(s), newDemo(s), labcmd.New(s.out, s.err), newTop(s), newTune(s), newExplain(s), newSnapshot(s), newSet(s), newGet(s), newUnset(s))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		sayUsage(c)
	}
	knowTheirOwn(root)
	sayVersion(root, s)
	return root
}

// sayVersion gives the root its --version. cobra's own would say it in other words,
// or by a template, which keeps every exported method of every library in the program.
func sayVersion(root *cobra.Command, s streams) {
	asked := root.Flags().BoolP("version", "v", false, "version for admitd")
	otherwise := root.RunE
	root.RunE = func(c *cobra.Command, args []string) error {
		if *asked {
			_, err := fmt.Fprintln(s.out, versionLine())
			return err
		}
		return otherwise(c, args)
	}
}

// knowTheirOwn has a command that is only there for those below it, and those
// that are too, refuse a word that none of them is. cobra shows the help instead,
// and ends well.
func knowTheirOwn(c *cobra.Command) {
	for _, below := range c.Commands() {
		knowTheirOwn(below)
		if below.Name() == "help" {
			below.RunE = helpWith
		}
	}
	if c.Runnable() {
		return
	}
	c.SuggestionsMinimumDistance = 2 // the default of cobra, which it does not set when it is asked
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		meant := ""
		if near := c.SuggestionsFor(args[0]); len(near) > 0 {
			meant = ", did you mean \"" + strings.Join(near, `" or "`) + "\"?"
		}
		return fmt.Errorf("unknown command %q for %q%s", args[0], c.CommandPath(), meant)
	}
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
}

// helpWith prints the help of the command that args name.
func helpWith(c *cobra.Command, args []string) error {
	topic, rest, err := c.Root().Find(args)
	if err != nil || len(rest) > 0 {
		return fmt.Errorf("unknown help topic %q", strings.Join(args, " "))
	}
	topic.InitDefaultHelpFlag()
	return topic.Help()
}

// sayUsage has a command, and those below it, name their arguments to who gave
// too few or too many.
func sayUsage(c *cobra.Command) {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				return fmt.Errorf("%w; usage: %s", err, c.UseLine())
			}
			return nil
		}
	}
	for _, below := range c.Commands() {
		sayUsage(below)
	}
}

// newSchema returns the command that prints the configuration's schema.
func newSchema(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of the configuration",
		Long: `Prints the JSON Schema (draft 2020-12) of the configuration file. Editors that
know the YAML language server complete and check with it:

  admitd schema > admitd.schema.json
  # first line of the configuration:
  # yaml-language-server: $schema=admitd.schema.json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := s.out.Write(config.Schema())
			return err
		},
	}
}

// newVersion returns the command that prints what this binary is.
func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print version, commit and Go version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(s.out, versionLine())
			return err
		},
	}
}

// versionLine says what this binary is.
func versionLine() string {
	v, commit := buildVersion()
	return fmt.Sprintf("admitd %s (commit %s, %s, %s/%s)", v, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Set by the linker: -X main.version=… -X main.commit=….
var version, commit string //nolint:gochecknoglobals // the linker can set nothing else

// buildVersion returns what the linker was told, or what the build recorded.
func buildVersion() (v, rev string) {
	v, rev = version, commit
	info, ok := debug.ReadBuildInfo()
	if ok && v == "" {
		v = info.Main.Version
	}
	if ok && rev == "" {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				rev = s.Value
			}
		}
	}
	if v == "" || v == "(devel)" {
		v = "devel"
	}
	if rev == "" {
		rev = "unknown"
	}
	return v, rev
}
