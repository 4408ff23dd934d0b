package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/config"
	"github.com/admitd/admitd/daemon"
)

// Exit codes of check.
const (
	exitInvalid    = 1
	exitUnreadable = 2
)

// newCheck returns the command that validates configuration files.
func newCheck(s streams) *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE...",
		Short: "Validate configuration files",
		Long: `Loads and validates each file as 'admitd serve' would, environment overrides
included, and prints every problem at once as

  FILE:LINE: key.path: what is wrong (value)

Exit status: 0 when all are valid, 1 when one is not, 2 when one cannot be read.`,
		Example: "  admitd check admitd.yaml\n  ADMITD_ADMIN__LISTEN=127.0.0.1:9999 admitd check admitd.yaml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			code := 0
			for _, file := range files {
				code = max(code, checkFile(s, file))
			}
			if code != 0 {
				return exitError{code: code}
			}
			return nil
		},
	}
}

// checkFile validates one file and returns its exit code.
func checkFile(s streams, file string) int {
	cfg, err := config.Load(file, os.Environ())
	if err == nil {
		return checkParts(s, file, cfg)
	}
	var problems config.Problems
	switch {
	case errors.As(err, &problems):
		fmt.Fprintln(s.err, problems)
		return exitInvalid
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission), isPathError(err):
		fmt.Fprintf(s.err, "%s: cannot be read: %v\n", file, err)
		return exitUnreadable
	default:
		fmt.Fprintf(s.err, "%s: %v\n", file, err)
		return exitInvalid
	}
}

// isPathError reports whether reading the file failed.
func isPathError(err error) bool {
	var pe *os.PathError
	return errors.As(err, &pe)
}

// checkParts builds what can be built without listening, so that a problem that
// only a constructor finds, or that lies in another file, is found here too.
func checkParts(s streams, file string, cfg *config.Config) (code int) {
	if err := daemon.Check(cfg); err != nil {
		for line := range strings.SplitSeq(err.Error(), "\n") {
			fmt.Fprintf(s.err, "%s: %s\n", file, line)
		}
		return exitInvalid
	}
	fmt.Fprintf(s.out, "%s: valid, ingresses: %d\n", file, len(cfg.Ingresses))
	return 0
}
