// Command report reads what `go test -bench` printed for the benchmarks of the
// decision, any number of rounds, and writes how they compare.
package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
)

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// yardstick is what every other benchmark is compared with.
const yardstick = "x-time-rate"

// series is one benchmark: its times in nanoseconds, by processors.
type series struct {
	name   string
	times  map[int][]float64
	allocs string
}

// group is the benchmarks of one function, in the order in which they ran.
type group struct {
	name   string
	series []*series
}

// target is a ratio that the gate has to keep.
type target struct {
	group, subject, peer string
	atMost               float64
}

// targets are those of the first stage.
func targets() []target {
	return []target{
		{"Admit", "gate", yardstick, 1.1},
		{"Admit", "gate", "failsafe-adaptive", 0.35},
		{"Admit", "gate", "concurrency-limits-gradient2", 0.25},
		{"Refuse", "gate", yardstick, 0.4},
	}
}

// speedUp is what two processors must refuse relative to one.
const speedUp = 1.9

func run(in io.Reader, out io.Writer) error {
	groups, err := read(in)
	if err != nil {
		return err
	}
	if len(groups) == 0 {
		return errors.New("no benchmarks on standard input")
	}
	for _, g := range groups {
		table(out, g)
	}
	verdicts(out, groups)
	return nil
}

// read parses lines such as
//
//	BenchmarkAdmit/gate-2   1000000   104.5 ns/op   0 B/op   0 allocs/op
func read(in io.Reader) ([]*group, error) {
	var groups []*group
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 8 || !strings.HasPrefix(f[0], "Benchmark") || f[3] != "ns/op" {
			continue
		}
		ns, err := strconv.ParseFloat(f[2], 64)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", lines.Text(), err)
		}
		name, processors := split(strings.TrimPrefix(f[0], "Benchmark"))
		in, sub, _ := strings.Cut(name, "/")
		s := find(&groups, in).find(sub)
		s.times[processors] = append(s.times[processors], ns)
		s.allocs = f[6]
	}
	return groups, lines.Err()
}

// split takes the number of processors off a benchmark's name; it is left out
// when there is one.
func split(name string) (string, int) {
	if i := strings.LastIndexByte(name, '-'); i > 0 {
		if n, err := strconv.Atoi(name[i+1:]); err == nil {
			return name[:i], n
		}
	}
	return name, 1
}

func find(groups *[]*group, name string) *group {
	for _, g := range *groups {
		if g.name == name {
			return g
		}
	}
	g := &group{name: name}
	*groups = append(*groups, g)
	return g
}

func (g *group) find(name string) *series {
	for _, s := range g.series {
		if s.name == name {
			return s
		}
	}
	s := &series{name: name, times: map[int][]float64{}}
	g.series = append(g.series, s)
	return s
}

// least returns the shortest time, which is the one that other work on the
// machine disturbed least; 0 when there is none.
func (s *series) least(processors int) float64 {
	if len(s.times[processors]) == 0 {
		return 0
	}
	return slices.Min(s.times[processors])
}

// median returns the middle time, 0 when there is none.
func (s *series) median(processors int) float64 {
	t := slices.Sorted(slices.Values(s.times[processors]))
	if len(t) == 0 {
		return 0
	}
	return t[len(t)/2]
}

// ratio divides, 0 when it cannot.
func ratio(a, b float64) float64 {
	if b == 0 {
		return 0
	}
	return a / b
}

func table(out io.Writer, g *group) {
	y := g.find(yardstick)
	fmt.Fprintf(out, "\n| %s | ns, least | median | to %s | 2 processors, least | median | allocs |\n", g.name, yardstick)
	fmt.Fprintln(out, "|---|---|---|---|---|---|---|")
	for _, s := range g.series {
		fmt.Fprintf(out, "| %s | %.1f | %.1f | %.2f | %.1f | %.1f | %s |\n", s.name, s.least(1), s.median(1),
			ratio(s.least(1), y.least(1)), s.least(2), s.median(2), s.allocs)
	}
}

// verdicts says which targets are met: on the least times, but on the medians
// where two processors share, since how they meet is luck.
func verdicts(out io.Writer, groups []*group) {
	fmt.Fprintln(out, "\n| target | wanted | measured | |\n|---|---|---|---|")
	for _, t := range targets() {
		g := find(&groups, t.group)
		got := ratio(g.find(t.subject).least(1), g.find(t.peer).least(1))
		fmt.Fprintf(out, "| %s: %s to %s | ≤ %.2f | %.2f | %s |\n", t.group, t.subject, t.peer, t.atMost, got, word(cmp.Compare(got, t.atMost) <= 0))
	}
	for _, name := range []string{"gate", "gate-own-tenants"} {
		s := find(&groups, "Refuse").find(name)
		got := ratio(s.median(1), s.median(2))
		fmt.Fprintf(out, "| Refuse: %s, two processors to one | ≥ %.2f | %.2f | %s |\n", name, speedUp, got, word(got >= speedUp))
	}
}

func word(met bool) string {
	if met {
		return "met"
	}
	return "missed"
}
