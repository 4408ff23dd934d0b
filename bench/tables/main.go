// Tables puts what a comparison has printed, from its standard input, into a page,
// between the lines <!-- bench:NAME --> and <!-- /bench:NAME -->, with when, where
// and by which command it was measured. Tables in Markdown stay, everything else
// is shown as it is.
//
//	tables -page docs/performance.md -name wire -command 'scripts/bench-wire.sh -rounds 3'
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
)

func main() {
	page := flag.String("page", "docs/performance.md", "the page")
	name := flag.String("name", "", "of the comparison")
	command := flag.String("command", "", "what has printed it")
	flag.Parse()
	if err := put(*page, *name, *command, os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "tables:", err)
		os.Exit(1)
	}
}

// put replaces what stands between the lines.
func put(page, name, command string, from io.Reader) error {
	printed, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	begin, end := "<!-- bench:"+name+" -->\n", "<!-- /bench:"+name+" -->"
	before, rest, ok := strings.Cut(string(old), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return fmt.Errorf("%s has no place for %s", page, name)
	}
	text := strings.TrimSpace(string(printed))
	if text == "" {
		text = "It printed nothing."
	}
	if !strings.Contains("\n"+text, "\n| ") {
		text = "```text\n" + text + "\n```"
	}
	head := fmt.Sprintf("`%s` on %s, %d processors, load average %s:", command, time.Now().UTC().Format(time.DateOnly), runtime.NumCPU(), load())
	return os.WriteFile(page, []byte(before+begin+head+"\n\n"+text+"\n"+end+after), 0o644) //nolint:gosec // a page of the documents
}

// load is what the machine had to do in the last minute: 1 for each processor that
// is busy. The comparison itself is in it.
func load() string {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(raw), " ")
	return first
}
