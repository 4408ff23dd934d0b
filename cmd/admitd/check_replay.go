package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"github.com/admitd/admitd/cmd/admitd/labcmd"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/measure"
)

// What a replay is judged by.
const (
	measureGoodput = "goodput"
	measureP99     = "p99"
	measureFalse   = "falseRefusals"
)

// checkReplay are the flags of check that play recorded traffic through two
// configurations.
type checkReplay struct {
	trace, against, ingress string
	tolerance               tolerance
	workers                 int
	service                 time.Duration
	timeout, objective      time.Duration
	seed                    uint64
}

func (o *checkReplay) flags(f *pflag.FlagSet) {
	o.tolerance = tolerance{measureGoodput: 0.02, measureP99: 0.1, measureFalse: 0.01}
	f.StringVar(&o.trace, "replay", "", "trace of recorded traffic that is played through FILE and --against")
	f.StringVar(&o.against, "against", "", "configuration that runs, which FILE is compared with")
	f.StringVar(&o.ingress, "ingress", "", "the ingress that the trace is of; needed when there are several")
	f.Var(o.tolerance, "tolerance", "by how much FILE may be worse: a share for all, or one each as goodput=0.02,p99=0.1,falseRefusals=0.01")
	f.IntVar(&o.workers, "workers", 0, "workers of the backend; 0 = estimate from the trace")
	f.DurationVar(&o.service, "service", 0, "time of one request; 0 = estimate from the trace")
	f.DurationVar(&o.timeout, "timeout", 0, "when clients give up; 0 = 1m")
	f.DurationVar(&o.objective, "objective", 0, "latency up to which an answer is good; 0 = that of the running configuration, or 100ms")
	f.Uint64Var(&o.seed, "seed", 1, "seed of what the trace leaves open")
}

// misused says what is missing for a replay, or too much.
func (o *checkReplay) misused(files []string) error {
	switch {
	case (o.trace == "") != (o.against == ""):
		return errors.New("--replay TRACE and --against RUNNING.yaml go together")
	case o.trace != "" && len(files) != 1:
		return fmt.Errorf("--replay compares one file with the running one (%d files)", len(files))
	}
	return nil
}

// files returns what is validated: the running configuration too.
func (o *checkReplay) files(files []string) []string {
	if o.against == "" {
		return files
	}
	return append([]string{o.against}, files...)
}

// tolerance is by how much each measure may get worse: goodput and p99 as a
// share of what they are, false refusals as a share of the requests. It is a
// [pflag.Value].
type tolerance map[string]float64

// String implements [pflag.Value].
func (t tolerance) String() string {
	words := make([]string, 0, len(t))
	for _, name := range slices.Sorted(maps.Keys(t)) {
		words = append(words, fmt.Sprintf("%s=%g", name, t[name]))
	}
	return strings.Join(words, ",")
}

// Set implements [pflag.Value].
func (t tolerance) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		name, number, one := strings.Cut(word, "=")
		if !one {
			number = name
		}
		share, err := strconv.ParseFloat(number, 64)
		if err != nil || !(share >= 0) {
			return fmt.Errorf("want a share, such as 0.05 (%s)", word)
		}
		if _, known := t[name]; one && !known {
			return fmt.Errorf("there is no measure %s: want goodput, p99 or falseRefusals", name)
		}
		for measure := range t {
			if !one || measure == name {
				t[measure] = share
			}
		}
	}
	return nil
}

// Type implements [pflag.Value].
func (tolerance) Type() string { return "share" }

// run plays the trace through both configurations, which are valid, and prints
// what changes. The error says that something got worse than the tolerance.
func (o *checkReplay) run(s streams, file, format string) error {
	running, err := labcmd.Ingress(o.against, o.ingress)
	if err != nil {
		return exitError{exitInvalid, err}
	}
	next, err := labcmd.Ingress(file, cmp.Or(o.ingress, running.Name))
	if err != nil {
		return exitError{exitInvalid, err}
	}
	recorded, err := labcmd.ReadTrace(o.trace)
	if err != nil {
		return exitError{exitUnreadable, err}
	}
	model, err := labcmd.Model(recorded, o.workers, o.service)
	if err != nil {
		return exitError{exitUnreadable, err}
	}
	objective := cmp.Or(o.objective, time.Duration(running.Objective), 100*time.Millisecond)
	var results []*measure.Result
	for _, in := range []*config.Ingress{running, next} {
		c, err := labcmd.Contender(in)
		if err != nil {
			return exitError{exitInvalid, err}
		}
		r, err := lab.Replay(recorded, c, lab.ReplayOptions{Model: model, Timeout: o.timeout, Objective: objective, Seed: o.seed})
		if err != nil {
			return exitError{exitUnreadable, err}
		}
		results = append(results, r)
	}
	if format == "text" {
		labcmd.PrintModel(s.out, recorded, model)
		if !slices.Equal(running.Partitions.By, next.Partitions.By) {
			fmt.Fprintf(s.out, "note: partitions.by differs; the trace has the keys of the one that was in force\n\n")
		}
	}
	rows := o.compare(&results[0].Windows[0], &results[1].Windows[0], recorded.Span)
	return o.report(s, file, format, rows)
}

// compared is one measure of both replays. change is positive when it got worse;
// bound is how much worse it may get, negative = it is not judged.
type compared struct {
	name, before, after, difference string
	change, bound                   float64
	was, is                         float64 // per second, seconds, or a share
}

// replayDocument is what a replay prints as JSON.
type replayDocument struct {
	File    string        `json:"file"`
	Against string        `json:"against"`
	Trace   string        `json:"trace"`
	Worse   bool          `json:"worse"` // than the tolerance allows
	Rows    []replayedRow `json:"rows"`
}

// replayedRow is one measure: goodput per second, p99 in seconds, the others as
// a share of the requests.
type replayedRow struct {
	Measure string   `json:"measure"`
	Running float64  `json:"running"`
	New     float64  `json:"new"`
	Change  float64  `json:"change"`              // for the worse, when positive
	Allowed *float64 `json:"tolerance,omitempty"` // missing = it is not judged
	Worse   bool     `json:"worse"`
}

// document is the table as JSON.
func (o *checkReplay) document(file string, rows []compared) replayDocument {
	d := replayDocument{File: file, Against: o.against, Trace: o.trace}
	for i := range rows {
		r := &rows[i]
		row := replayedRow{Measure: r.name, Running: r.was, New: r.is, Change: r.change, Worse: r.worse()}
		if r.bound >= 0 {
			row.Allowed = &r.bound
		}
		d.Worse = d.Worse || row.Worse
		d.Rows = append(d.Rows, row)
	}
	return d
}

func (c *compared) worse() bool { return c.bound >= 0 && c.change > c.bound }

// compare lists the measures of two replays.
func (o *checkReplay) compare(was, is *measure.Window, span time.Duration) []compared {
	share := func(name string, a, b int, bound float64) compared {
		x, y := float64(a)/float64(max(was.Offered, 1)), float64(b)/float64(max(is.Offered, 1))
		return compared{
			name: name, before: fmt.Sprintf("%.2f %%", 100*x), after: fmt.Sprintf("%.2f %%", 100*y),
			difference: fmt.Sprintf("%+.2f points", 100*(y-x)), change: y - x, bound: bound, was: x, is: y,
		}
	}
	growth := func(x, y float64) (share float64, text string) {
		if x <= 0 {
			return 0, "–"
		}
		return y/x - 1, fmt.Sprintf("%+.1f %%", 100*(y/x-1))
	}
	seconds := max(span.Seconds(), 1e-9)
	good := compared{
		name: "goodput", before: fmt.Sprintf("%.1f/s", float64(was.Good)/seconds), after: fmt.Sprintf("%.1f/s", float64(is.Good)/seconds),
		bound: o.tolerance[measureGoodput], was: float64(was.Good) / seconds, is: float64(is.Good) / seconds,
	}
	good.change, good.difference = growth(float64(was.Good), float64(is.Good))
	good.change = -good.change
	p99 := compared{name: "p99", before: labcmd.Milliseconds(was.P99).String(), after: labcmd.Milliseconds(is.P99).String(), bound: o.tolerance[measureP99], was: was.P99, is: is.P99}
	p99.change, p99.difference = growth(was.P99, is.P99)
	return []compared{
		good, p99, share("false refusals", was.FalseRefused, is.FalseRefused, o.tolerance[measureFalse]),
		share("not admitted", was.Refused, is.Refused, -1), share("failed", was.Failed, is.Failed, -1),
	}
}

// report prints the table, and says what got worse.
func (o *checkReplay) report(s streams, file, format string, rows []compared) error {
	var worse []string
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\trunning\tnew\tchange\t")
	for i := range rows {
		r := &rows[i]
		verdict := ""
		if r.worse() {
			verdict = fmt.Sprintf("worse than %g allows", r.bound)
			worse = append(worse, fmt.Sprintf("%s goes from %s to %s (%s)", r.name, r.before, r.after, r.difference))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", r.name, r.before, r.after, r.difference, verdict)
	}
	switch format {
	case "text":
		if err := w.Flush(); err != nil {
			return err
		}
	case "json":
		if err := json.NewEncoder(s.out).Encode(map[string]any{"valid": true, "problems": config.Problems{}, "replay": o.document(file, rows)}); err != nil {
			return fmt.Errorf("write: %w", err)
		}
	case "github":
		for _, text := range worse {
			fmt.Fprintf(s.out, "::error file=%s,title=admitd check --replay::%s\n", annotated.Replace(file), annotation.Replace(text))
		}
	}
	if len(worse) > 0 {
		return exitError{exitInvalid, errors.New(file + ": worse than " + o.against + " on " + o.trace + ": " + strings.Join(worse, "; "))}
	}
	return nil
}
