// Command truth compares what admitd tells with what was: a generator that notes
// what it sent and what came back, a backend that notes what it worked on and
// for how long, and a real Prometheus with the boards and rules of the repository.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"
)

func main() {
	binary := flag.String("admitd", os.Getenv("PROVE_ADMITD"), "the gate")
	server := flag.String("prometheus", "prometheus", "the Prometheus server")
	root := flag.String("root", "../..", "of the repository")
	only := flag.String("phase", "", "phases whose name this expression matches")
	out := flag.String("figures", "", "a file for every figure")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if !run(ctx, *binary, *server, *root, *only, *out) {
		os.Exit(1)
	}
}

// run plays everything and reports whether all held.
func run(ctx context.Context, binary, server, root, only, out string) bool {
	dir, err := os.MkdirTemp("", "truth")
	if err != nil {
		fmt.Println("not ok", err)
		return false
	}
	defer os.RemoveAll(dir)
	sheets, err := playAll(ctx, binary, server, root, dir, only)
	if out != "" {
		if f, err := os.Create(out); err == nil {
			writeFigures(f, sheets)
			_ = f.Close()
		}
	}
	table(os.Stdout, sheets)
	ok := err == nil && seen(sheets)
	for _, s := range sheets {
		ok = s.print() && ok
	}
	if err != nil {
		fmt.Println("not ok", err)
	}
	return ok
}

// seen says of how many phases panels were compared; of some they have to be.
func seen(sheets []*sheet) bool {
	some, all := 0, 0
	for _, s := range sheets {
		for _, f := range s.figures {
			if f.group == "spans" || f.group == "status" {
				all++
				if s.unseen == "" {
					some++
				}
				break
			}
		}
	}
	if some == 0 && all > 0 {
		fmt.Println("not ok panels: the machine stood still too often for any to be compared")
		return false
	}
	fmt.Printf("ok panels, and verdicts, of %d of %d phases\n", some, all)
	return true
}

// playAll plays the phases whose name matches only.
func playAll(ctx context.Context, binary, server, root, dir, only string) (sheets []*sheet, err error) {
	w := &world{}
	if w.panels, err = readPanels(filepath.Join(root, "dashboards", "boards")); err != nil {
		return nil, err
	}
	if w.collector, err = newCollector(ctx); err != nil {
		return nil, err
	}
	rules := filepath.Join(root, "dashboards", "rules", "admitd.rules.yml")
	text, err := os.ReadFile(rules)
	if err != nil {
		return nil, err
	}
	w.alertNames = alertsOf(string(text))
	if err := keyPair(dir); err != nil {
		return nil, err
	}
	w.gate = newGate(binary, dir, fmt.Sprintf("tracing: { endpoint: \"http://%s\", sampleRatio: 1 }", w.collector.address))
	plays, err := prepareAll(ctx, w, append(phases(), wirePhases()...), only)
	if err != nil {
		return nil, err
	}
	alarming, err := prepareAll(ctx, w, alarms(dir), only)
	if err != nil {
		return nil, err
	}
	if err := w.gate.start(ctx); err != nil {
		return nil, err
	}
	defer func() { w.gate.stop(syscall.SIGKILL) }()
	bad, err := newTroubled(ctx, binary, dir)
	if err != nil {
		return nil, err
	}
	defer func() { bad.gate.stop(syscall.SIGKILL) }()
	if w.prometheus, err = newPrometheus(ctx, server, dir, rules, w.gate.admin, bad.gate.admin); err != nil {
		return nil, err
	}
	defer w.prometheus.stop()
	return playBoth(ctx, w, plays, alarming, bad)
}

// prepareAll prepares the phases whose name matches only.
func prepareAll(ctx context.Context, w *world, all []*phase, only string) (plays []*play, err error) {
	for _, ph := range all {
		if matched, err := regexp.MatchString(only, ph.name); err != nil || !matched {
			continue
		}
		p, err := prepare(ctx, w, ph)
		if err != nil {
			return nil, err
		}
		plays = append(plays, p)
	}
	return plays, nil
}

// alarmsNeed is for how long alarms are played at least: some wait for a past.
const alarmsNeed = 100 * time.Second

// playBoth plays the phases one after the other, and the alarms all the while.
func playBoth(ctx context.Context, w *world, plays, alarming []*play, bad *troubled) (sheets []*sheet, err error) {
	began := time.Now()
	go w.lag.run(ctx)
	lasting, enough := context.WithCancel(ctx)
	defer enough()
	var wg sync.WaitGroup
	wg.Go(func() { bad.run(lasting) })
	late := make([]*sheet, len(alarming))
	for i, p := range alarming {
		wg.Go(func() { late[i] = p.last(lasting) })
	}
	if err := until(20*time.Second, "the first scrapes", func() error {
		if n, err := w.prometheus.scrapes(ctx, w.gate.admin, span{time.Now().Add(-2 * time.Second), time.Now()}); err != nil || n < 3 {
			return fmt.Errorf("%d (%w)", n, err)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	watch := newWatch(w.gate)
	go watch.run(lasting)
	for _, p := range plays {
		sheets = append(sheets, p.run(ctx))
		if ctx.Err() != nil {
			return sheets, ctx.Err()
		}
	}
	if len(alarming) > 0 {
		time.Sleep(time.Until(began.Add(alarmsNeed)))
		sheets = append(sheets, compareAlerts(ctx, w, plays, alarming, bad, began))
	}
	enough()
	wg.Wait()
	time.Sleep(2500 * time.Millisecond) // spans are exported every two seconds
	m, err := w.gate.metrics(ctx)
	if err != nil {
		return sheets, err
	}
	for i, p := range plays {
		p.spans(sheets[i], w.collector.of(p.name))
	}
	for i, p := range alarming {
		p.counters(late[i], m)
		p.spans(late[i], w.collector.of(p.name))
	}
	sheets = append(sheets, late...)
	return append(sheets, watch.sheet()), nil
}

// logged reads a number of a line of the log.
func logged(line, name string) float64 {
	var values map[string]any
	if json.Unmarshal([]byte(line), &values) != nil {
		return 0
	}
	v, _ := values[name].(float64)
	return v
}

// print prints the phase as a fact, or what does not hold of it.
func (s *sheet) print() bool {
	good := 0
	for _, f := range s.figures {
		if f.ok {
			good++
			continue
		}
		fmt.Printf("not ok %s: %s: %s: truth %.6g, told %.6g\n", s.phase, f.group, f.name, f.truth, f.told)
	}
	for _, w := range s.wrong {
		fmt.Printf("not ok %s: %s\n", s.phase, w)
	}
	ok := good == len(s.figures) && len(s.wrong) == 0
	if ok {
		fmt.Printf("ok %s: %d figures\n", s.phase, good)
	}
	return ok
}

// columns are the figures of the table.
var columns = []struct{ title, figure string }{
	{"sent", "sent = received + invalid"},
	{"worked", "arrivals at the backend = admitted"},
	{"in time", "answered in time"},
	{"abandoned", "abandoned"},
	{"goodput/s", "overview: Goodput | goodput"},
	{"refused share", "overview: Refused share | rejected"},
	{"in use", "overview: Limit in use | in use"},
	{"p50", "overview: Latency of admitted requests against no load | p50"},
	{"p99", "overview: p99 of admitted | p99"},
	{"spans", "spans = sent"},
}

// table prints the phases beside their main figures, truth/told.
func table(w io.Writer, sheets []*sheet) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "phase")
	for _, c := range columns {
		fmt.Fprint(t, "\t", c.title)
	}
	fmt.Fprintln(t, "\tfigures\tverdict")
	for _, s := range sheets {
		fmt.Fprint(t, s.phase)
		for _, c := range columns {
			if f, ok := s.figureOf(c.figure); ok {
				fmt.Fprintf(t, "\t%.3g/%.3g", f.truth, f.told)
			} else {
				fmt.Fprint(t, "\t-")
			}
		}
		bad := len(s.wrong)
		for _, f := range s.figures {
			if !f.ok {
				bad++
			}
		}
		verdict := "true"
		if s.unseen != "" {
			verdict = "true, " + s.unseen
		}
		if bad > 0 {
			verdict = fmt.Sprintf("%d wrong", bad)
		}
		fmt.Fprintf(t, "\t%d\t%s\n", len(s.figures), verdict)
	}
	_ = t.Flush()
}

// writeFigures writes every figure, a line each.
func writeFigures(w io.Writer, sheets []*sheet) {
	for _, s := range sheets {
		for _, f := range s.figures {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.6g\t%.6g\t%v\n", s.phase, f.group, f.name, f.truth, f.told, f.ok)
		}
	}
}
