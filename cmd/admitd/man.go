package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// newMan returns the command that prints the manual page, for packages.
func newMan(s streams) *cobra.Command {
	return &cobra.Command{
		Use:    "man",
		Short:  "Print the manual page",
		Long:   "Prints the manual page, admitd(1), from what every command says of itself.",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return writeMan(s.out, cmd.Root())
		},
	}
}

// writeMan writes the manual page of a command line as man(7). It has no date: the
// same program has the same page.
func writeMan(w io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH ADMITD 1 \"\" \"admitd\" \"User Commands\"\n.SH NAME\nadmitd \\- %s\n", roff(root.Short))
	b.WriteString(".SH SYNOPSIS\n.B admitd\n.I command\n[\\fIoptions\\fR]\n.SH DESCRIPTION\n")
	paragraphs(&b, root.Long)
	b.WriteString(".SH COMMANDS\n")
	describe(&b, root)
	b.WriteString(".SH FILES\n.TP\n.I /etc/admitd/admitd.yaml\nThe configuration that the service runs on.\n")
	b.WriteString(".TP\n.I /etc/admitd/token\nThe bearer token of the admin port; made at installation.\n")
	b.WriteString(".SH ENVIRONMENT\nEvery key of the configuration, such as\n.BR ADMITD_ADMIN__LISTEN ,\nwith two underscores between levels.\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// describe writes what stands below a command, in the order of help.
func describe(b *strings.Builder, parent *cobra.Command) {
	for _, c := range parent.Commands() {
		if c.Hidden || c.Name() == "help" || c.Name() == "completion" {
			continue
		}
		if c.Runnable() {
			fmt.Fprintf(b, ".SS %s\n", roff(strings.TrimSuffix(c.UseLine(), " [flags]")))
			text := c.Long
			if text == "" {
				text = c.Short + "."
			}
			paragraphs(b, text)
			c.LocalFlags().VisitAll(func(f *pflag.Flag) { flag(b, f) })
		}
		describe(b, c)
	}
}

// flag writes one option.
func flag(b *strings.Builder, f *pflag.Flag) {
	if f.Hidden || f.Name == "help" {
		return
	}
	kind, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	fmt.Fprintf(b, ".TP\n\\fB%s\\fR", roff(name))
	if kind != "" {
		fmt.Fprintf(b, " \\fI%s\\fR", roff(kind))
	}
	fmt.Fprintf(b, "\n%s", roff(usage))
	if d := f.DefValue; d != "" && d != "false" && d != "0" && d != "0s" && d != "[]" {
		fmt.Fprintf(b, " (default %s)", roff(d))
	}
	b.WriteString(".\n")
}

// paragraphs writes text: indented lines as they are, others filled.
func paragraphs(b *strings.Builder, text string) {
	verbatim := false
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !verbatim:
			b.WriteString(".PP\n.nf\n")
		case !indented && verbatim:
			b.WriteString(".fi\n")
		}
		verbatim = indented
		if line == "" {
			b.WriteString(".PP\n")
			continue
		}
		b.WriteString(roff(line) + "\n")
	}
	if verbatim {
		b.WriteString(".fi\n")
	}
}

// roff escapes text for man(7).
func roff(s string) string {
	s = strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(s)
	if strings.HasPrefix(s, ".") || strings.HasPrefix(s, "'") {
		s = `\&` + s
	}
	return s
}
