package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
)

// Exit codes of check.
const (
	exitInvalid    = 1
	exitUnreadable = 2
)

// checkFormats are what check can print.
var checkFormats = []string{"text", "json", "github"} //nolint:gochecknoglobals // a constant list

// newCheck returns the command that validates configuration files.
func newCheck(s streams) *cobra.Command {
	var format string
	var asJSON bool
	var replay checkReplay
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Validate configuration files",
		Long: `Loads and validates each file as 'admitd serve' would, environment overrides
and files that it names included, and prints every problem at once as

  FILE:LINE: key.path: what is wrong (value)

With --json it prints {"valid": …, "problems": [{"file", "line", "path",
"message", "value"}]} instead, with --format github annotations that a GitHub
workflow shows beside the line.

A valid file may have warnings: what it leaves without a limit. They are printed
as FILE: warning: key.path: what it means, with --json as "warnings": [{"file",
"path", "message"}], and change no exit status.

With --replay TRACE --against RUNNING.yaml it also plays recorded traffic (the
trace of an ingress, 'trace: { file: … }') through both configurations in virtual
time and prints what changes, so that a change of limits is tested as code is.
It ends with 1 when goodput, p99 or false refusals, those while the backend had
room, get worse than --tolerance allows. With --json the document has "replay":
{"worse", "rows": [{"measure", "running", "new", "change", "tolerance", "worse"}]}.

Exit status: 0 when all are valid, 1 when one is not, 2 when one cannot be read.`,
		Example: "  admitd check admitd.yaml\n  ADMITD_ADMIN__LISTEN=127.0.0.1:9999 admitd check admitd.yaml\n  admitd check --format github deploy/*.yaml\n  admitd check --replay orders.trace --against running.yaml new.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			if asJSON {
				format = "json"
			}
			if !slices.Contains(checkFormats, format) {
				return fmt.Errorf("--format must be one of %s (%s)", strings.Join(checkFormats, ", "), format)
			}
			if problem := replay.misused(files); problem != nil {
				return problem
			}
			code, problems, warnings := checkFiles(s, format, replay.files(files))
			if code == 0 && replay.trace != "" {
				return replay.run(s, files[0], format)
			}
			if err := printProblems(s, format, problems, warnings); err != nil {
				return err
			}
			if code != 0 {
				return exitError{code: code}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&format, "format", "text", "how to print: text, json or github")
	cmd.Flags().BoolVar(&asJSON, "json", false, "the same as --format json")
	replay.flags(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(checkFormats, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// fileWarning is a warning about a file.
type fileWarning struct {
	File string `json:"file"`
	config.Warning
}

// checkFiles checks each file, as text at once, and returns the worst exit code.
func checkFiles(s streams, format string, files []string) (code int, problems config.Problems, warnings []fileWarning) {
	problems = config.Problems{}
	for _, file := range files {
		cfg, found, exit := checkFile(file)
		code, problems = max(code, exit), append(problems, found...)
		switch {
		case len(found) > 0 && format == "text":
			fmt.Fprintln(s.err, found)
		case len(found) > 0:
		default:
			if format == "text" {
				fmt.Fprintf(s.out, "%s: valid, ingresses: %d\n", file, len(cfg.Ingresses))
			}
			for _, w := range append(cfg.Warnings(), lifted(file)...) {
				warnings = append(warnings, fileWarning{file, w})
				if format == "text" {
					fmt.Fprintf(s.out, "%s: warning: %s: %s\n", file, w.Path, w.Message)
				}
			}
		}
	}
	return code, problems, warnings
}

// lifted warns of rates of 0 that were written down: who writes one may mean that
// nothing passes.
func lifted(file string) (all []config.Warning) {
	content, err := config.Reread(file)
	if err != nil {
		return nil // it was read a moment ago
	}
	for _, path := range config.Zeros(file, content, os.Environ()) {
		all = append(all, config.Warning{Path: path, Message: "0 is no bound: everything passes; say unlimited, if that is meant"})
	}
	return all
}

// checkFile reads one file and returns what is wrong with it, and the exit code
// for that.
func checkFile(file string) (cfg *config.Config, found config.Problems, code int) {
	cfg, err := config.LoadWithFiles(file, os.Environ())
	if err == nil {
		found = checkParts(file, cfg)
		return cfg, found, min(len(found), exitInvalid)
	}
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		return nil, problems, exitInvalid
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), isPathError(err):
		return nil, config.Problems{{File: file, Message: "cannot be read: " + err.Error()}}, exitUnreadable
	default:
		return nil, config.Problems{{File: file, Message: err.Error()}}, exitInvalid
	}
}

// isPathError reports whether reading the file failed.
func isPathError(err error) bool {
	var pe *os.PathError
	return errors.As(err, &pe)
}

// checkParts builds what can be built without listening, so that a problem that
// only a constructor finds is found here too.
func checkParts(file string, cfg *config.Config) (found config.Problems) {
	if err := daemon.Check(cfg); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			found = append(found, config.Problem{File: file, Message: line})
		}
	}
	return found
}

// printProblems prints what was found in all files, for programs.
func printProblems(s streams, format string, problems config.Problems, warnings []fileWarning) error {
	switch format {
	case "json":
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		out := map[string]any{"valid": len(problems) == 0, "problems": problems}
		if len(warnings) > 0 {
			out["warnings"] = warnings
		}
		return e.Encode(out)
	case "github":
		for _, p := range problems {
			at := "file=" + annotated.Replace(p.File)
			if p.Line > 0 {
				at += fmt.Sprintf(",line=%d", p.Line)
			}
			_, text, _ := strings.Cut(p.String(), ": ")
			fmt.Fprintf(s.out, "::error %s,title=admitd check::%s\n", at, annotation.Replace(text))
		}
		for _, w := range warnings {
			fmt.Fprintf(s.out, "::warning file=%s,title=admitd check::%s: %s\n", annotated.Replace(w.File), w.Path, annotation.Replace(w.Message))
		}
	}
	return nil
}

// What would end the message or a property of a GitHub workflow command.
//
//nolint:gochecknoglobals // immutable
var (
	annotation = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	annotated  = strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
)
