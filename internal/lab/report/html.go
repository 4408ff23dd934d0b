package report

import (
	_ "embed" // for the page
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/uplot"
)

// The page.
var (
	//go:embed page/report.html
	pageHTML string
	//go:embed page/report.js
	pageJS string
)

// maxPoints bounds the points of one plot over time.
const maxPoints = 600

// WriteHTML writes the report as one page that needs nothing else: no request
// leaves it.
func (r *Report) WriteHTML(w io.Writer) error {
	data, err := json.Marshal(r.page())
	if err != nil {
		return fmt.Errorf("lab: page: %w", err)
	}
	// Not html/template, which keeps every exported method of every library in the
	// program. All of it is our own text, but the data, whose angle brackets
	// encoding/json has escaped.
	_, err = strings.NewReplacer(
		"{{.CSS}}", uplot.CSS, "{{.Library}}", uplot.JS, "{{.Program}}", pageJS,
		"{{.Data}}", string(data), "{{.Licence}}", html.EscapeString(uplot.Licence),
	).WriteString(w, pageHTML)
	if err != nil {
		return fmt.Errorf("lab: page: %w", err)
	}
	return nil
}

// plotted is a series by column.
type plotted struct {
	T        []float64 `json:"t"` // s
	Limit    []*int    `json:"limit"`
	Inside   []int     `json:"inside"`
	Age      []float64 `json:"age"`     // ms
	Offered  []float64 `json:"offered"` // per second, as those below
	Good     []float64 `json:"good"`
	Refused  []float64 `json:"refused"`
	Failed   []float64 `json:"failed"`
	Attempts []float64 `json:"attempts"` // per request
}

// page returns the report with its series by column, thinned.
func (r *Report) page() any {
	type row struct {
		Row

		Series *plotted `json:"series,omitempty"`
	}
	type variant struct {
		Variant

		Rows []row `json:"rows"`
	}
	type scenario struct {
		Scenario

		Variants []variant `json:"variants"`
	}
	out := struct {
		Scenarios []scenario `json:"scenarios"`
		Verdicts  []Verdicts `json:"verdicts"`
	}{Verdicts: r.Verdicts}
	for _, s := range r.Scenarios {
		sc := scenario{Scenario: s}
		for _, v := range s.Variants {
			vr := variant{Variant: v}
			for _, rw := range v.Rows {
				vr.Rows = append(vr.Rows, row{Row: rw, Series: plot(rw.Series)})
			}
			sc.Variants = append(sc.Variants, vr)
		}
		out.Scenarios = append(out.Scenarios, sc)
	}
	return out
}

// plot turns steps into columns, several steps to a point where there are many.
func plot(steps []measure.Step) *plotted {
	if len(steps) < 2 {
		return nil
	}
	steps = steps[:len(steps)-1] // the last one gathers what ended after the arrivals
	each := (len(steps) + maxPoints - 1) / maxPoints
	p := &plotted{}
	for i := 0; i < len(steps); i += each {
		var sum measure.Step
		for _, s := range steps[i:min(i+each, len(steps))] {
			sum.Offered, sum.Good, sum.Refused = sum.Offered+s.Offered, sum.Good+s.Good, sum.Refused+s.Refused
			sum.Failed, sum.Attempts = sum.Failed+s.Failed, sum.Attempts+s.Attempts
			sum.Limit, sum.Inside, sum.QueueAge = s.Limit, s.Inside, max(sum.QueueAge, s.QueueAge)
		}
		p.add(float64(i)*measure.Grain.Seconds(), float64(each)*measure.Grain.Seconds(), sum)
	}
	return p
}

// add appends one point that stands for the given seconds.
func (p *plotted) add(at, seconds float64, s measure.Step) {
	rate := func(n int) float64 { return math.Round(float64(n)/seconds*10) / 10 }
	p.T = append(p.T, at)
	if s.Limit > 0 {
		p.Limit = append(p.Limit, &s.Limit)
	} else {
		p.Limit = append(p.Limit, nil)
	}
	p.Inside = append(p.Inside, s.Inside)
	p.Age = append(p.Age, math.Round(s.QueueAge*1e4)/10)
	p.Offered, p.Good = append(p.Offered, rate(s.Offered)), append(p.Good, rate(s.Good))
	p.Refused, p.Failed = append(p.Refused, rate(s.Refused)), append(p.Failed, rate(s.Failed))
	p.Attempts = append(p.Attempts, math.Round(float64(s.Attempts)/float64(max(s.Offered, 1))*1000)/1000)
}
