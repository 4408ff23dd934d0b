package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// Report is what a suite showed: means over the seeds, and verdicts.
type Report struct {
	Scenarios []Scenario `json:"scenarios"`
	Verdicts  []Verdicts `json:"verdicts"`
}

// Scenario is one scenario.
type Scenario struct {
	Name     string     `json:"name"`
	About    string     `json:"about"`
	Trigger  [2]float64 `json:"trigger"` // seconds; equal = none
	Variants []Variant  `json:"variants"`
}

// Variant is one variant.
type Variant struct {
	Name string `json:"name"`
	// Load at the beginning, as a multiple of the capacity.
	Load    float64  `json:"load"`
	Windows []string `json:"windows"`
	// Ceilings by window; none = unknown.
	Ceilings map[string]scenario.Ceiling `json:"ceilings,omitempty"`
	Rows     []Row                       `json:"rows"`
}

// Row is one contender in one variant.
type Row struct {
	Contender string `json:"contender"`
	Seeds     int    `json:"seeds"`
	// Windows in the order of the variant: means over the seeds by measure.
	Windows  []map[string]Stat `json:"windows"`
	capacity float64           // of the healthy backend, requests per second
	// Series of the first seed. It is in the page and in results, not in the
	// JSON of the report.
	Series []measure.Step `json:"-"`
}

// Stat is a measure over the seeds.
type Stat struct {
	Mean float64 `json:"mean"`
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
}

// Verdicts says who kept a criterion in one variant.
type Verdicts struct {
	Scenario  string             `json:"scenario"`
	Variant   string             `json:"variant"`
	Criterion string             `json:"criterion"`
	Why       string             `json:"why"`
	By        []string           `json:"by"`
	Values    map[string]float64 `json:"values"`
	Passing   []string           `json:"passing"` // contenders whose value holds
	// Known is the mark on the variant, where the target is known to be missed;
	// nil = it is to be kept.
	Known *scenario.Known `json:"known,omitempty"`
	// Pass says that the target is kept, or missed by no more than is known.
	Pass bool `json:"pass"`
	// Judged is false when contenders that By names did not run, or what is
	// possible is not known.
	Judged bool `json:"judged"`
	// State is one word for all that: yes, no, known (missed, by no more than is
	// known), better (kept where it was known to be missed), not run, no ceiling.
	State string `json:"state"`

	measure string // that is judged
	window  int    // of the variant
}

// Fit returns an error when results are of another version of a scenario, with other
// windows.
func Fit(scenarios []*scenario.Scenario, results []*measure.Result) error {
	for _, s := range scenarios {
		for _, r := range results {
			run, ok := s.Variant(r.Variant)
			if !ok || r.Scenario != s.Name {
				continue
			}
			same := slices.EqualFunc(run.Windows, r.Names(), func(w scenario.Window, name string) bool { return w.Name == name })
			if !same {
				return fmt.Errorf("lab: results of %s, %s are of another version of the scenario: they have windows %v", s.Name, r.Variant, r.Names())
			}
		}
	}
	return nil
}

// New sums results up, which must [Fit]. Results of scenarios that are not listed
// are left out.
func New(scenarios []*scenario.Scenario, results []*measure.Result) *Report {
	r := &Report{}
	for _, s := range scenarios {
		sr := Scenario{
			Name: s.Name, About: s.About,
			Trigger: [2]float64{time.Duration(s.Trigger.From).Seconds(), time.Duration(s.Trigger.To).Seconds()},
		}
		for i := range s.Variants {
			run := s.Apply(&s.Variants[i])
			v := Variant{Name: s.Variants[i].Name, Load: run.LoadSteps()[0].Load, Ceilings: run.Ceilings()}
			for _, w := range run.Windows {
				v.Windows = append(v.Windows, w.Name)
			}
			v.Rows = rows(run, results)
			if len(v.Rows) == 0 {
				continue
			}
			sr.Variants = append(sr.Variants, v)
			for j := range s.Pass {
				if s.Pass[j].AppliesTo(&s.Variants[i]) {
					r.Verdicts = append(r.Verdicts, judge(s.Name, &v, &s.Pass[j], s.Pass[j].KnownIn(&s.Variants[i])))
				}
			}
		}
		if len(sr.Variants) > 0 {
			r.Scenarios = append(r.Scenarios, sr)
		}
	}
	return r
}

// rank orders contenders: those the lab knows first, then the others.
func rank(known []string, name string) int {
	if i := slices.Index(known, name); i >= 0 {
		return i
	}
	return len(known)
}

// rows sums up the contenders of one variant: those the lab knows, then others in
// the order of the results. Their ceilings are those that are known now.
func rows(run *scenario.Scenario, results []*measure.Result) []Row {
	name, variant := run.Name, run.Variants[0].Name
	var order []string
	by := map[string][]*measure.Result{}
	for _, r := range results {
		if r.Scenario != name || r.Variant != variant {
			continue
		}
		if by[r.Contender] == nil {
			order = append(order, r.Contender)
		}
		by[r.Contender] = append(by[r.Contender], knowing(r, run.Ceilings()))
	}
	known := append([]string{"none", scenario.Tuned, scenario.Queued}, scenario.Ours()...)
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(rank(known, a), rank(known, b)) })
	var list []Row
	for _, name := range order {
		runs := by[name]
		row := Row{Contender: name, Seeds: len(runs), Series: runs[0].Series, capacity: runs[0].Windows[0].Capacity}
		for i := range runs[0].Windows {
			row.Windows = append(row.Windows, stats(runs, i))
		}
		list = append(list, row)
	}
	return list
}

// knowing returns the result with the ceilings that are given.
func knowing(r *measure.Result, ceilings map[string]scenario.Ceiling) *measure.Result {
	out := *r
	out.Windows = slices.Clone(r.Windows)
	for i := range out.Windows {
		out.Windows[i].Ceiling = ceilings[out.Windows[i].Name].Good
	}
	return &out
}

// stats returns every measure of one window over the seeds.
func stats(runs []*measure.Result, window int) map[string]Stat {
	out := map[string]Stat{}
	for _, m := range measure.Names() {
		s := Stat{Min: math.Inf(1), Max: math.Inf(-1)}
		for _, r := range runs {
			v, _ := r.At(m, window)
			s.Mean += v / float64(len(runs))
			s.Min, s.Max = min(s.Min, v), max(s.Max, v)
		}
		out[m] = s
	}
	return out
}

// Failed lists the criteria that were judged and not kept.
func (r *Report) Failed() []Verdicts {
	var list []Verdicts
	for _, v := range r.Verdicts {
		if v.Judged && !v.Pass {
			list = append(list, v)
		}
	}
	return list
}

// WriteJSON writes the report.
func (r *Report) WriteJSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", " ")
	if err := enc.Encode(r); err != nil {
		return fmt.Errorf("lab: write report: %w", err)
	}
	return nil
}
