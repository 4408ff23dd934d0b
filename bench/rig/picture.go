package rig

import (
	"fmt"
	"math"
	"os"
	"strings"
)

// Panel is one diagram of a picture: values over a size that grows.
type Panel struct {
	Title  string // of the values, with their unit
	Values []float64
}

// Sizes of a picture, in pixels.
const (
	panelWide, panelHigh = 340, 190
	leftPad, topPad      = 52, 46
)

// The greys can be read on white and on black; the line has a colour for each.
const style = `<style>
text{font:12px system-ui,sans-serif;fill:#6e7781}.t{font-weight:600}.a{stroke:#8c959f;stroke-width:1}.g{stroke:#8c959f;stroke-width:.5;stroke-dasharray:2 3}
.l{fill:none;stroke:#0969da;stroke-width:2}.d{fill:#0969da}
@media(prefers-color-scheme:dark){text{fill:#9198a1}.l{stroke:#58a6ff}.d{fill:#58a6ff}}
</style>`

// Picture writes an SVG with the panels side by side. labels name the sizes,
// which are drawn at equal distances.
func Picture(file, title string, labels []string, panels ...Panel) error {
	var b strings.Builder
	wide, high := len(panels)*(panelWide+leftPad)+20, topPad+panelHigh+40
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img"><title>%s</title>%s`, wide, high, wide, high, title, style)
	for i, p := range panels {
		p.draw(&b, float64(i*(panelWide+leftPad)+leftPad), labels)
	}
	b.WriteString("</svg>\n")
	return os.WriteFile(file, []byte(b.String()), 0o644) //nolint:gosec // a page of the documents
}

// draw draws one panel with its left edge at x.
func (p *Panel) draw(b *strings.Builder, x float64, labels []string) {
	top, base := float64(topPad), float64(topPad+panelHigh)
	step := tidy(p.most() / 4)
	most := math.Ceil(p.most()/step) * step
	y := func(v float64) float64 { return base - v/most*panelHigh }
	at := func(i int) float64 { return x + (float64(i)+0.5)*panelWide/float64(len(labels)) }
	fmt.Fprintf(b, `<text class="t" x="%.0f" y="%.0f">%s</text>`, x, top-18, p.Title)
	for v := 0.0; v <= most*1.001; v += step {
		fmt.Fprintf(b, `<line class="g" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text x="%.0f" y="%.1f" text-anchor="end">%g</text>`, x, x+panelWide, y(v), y(v), x-6, y(v)+4, round(v))
	}
	fmt.Fprintf(b, `<line class="a" x1="%.0f" x2="%.0f" y1="%.0f" y2="%.0f"/><polyline class="l" points="`, x, x+panelWide, base, base)
	for i, v := range p.Values {
		fmt.Fprintf(b, "%.1f,%.1f ", at(i), y(v))
	}
	b.WriteString(`"/>`)
	for i, v := range p.Values {
		fmt.Fprintf(b, `<circle class="d" cx="%.1f" cy="%.1f" r="3"/><text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, at(i), y(v), at(i), base+18, labels[i])
	}
}

// most returns the largest value, above 0.
func (p *Panel) most() float64 {
	most := 1e-9
	for _, v := range p.Values {
		most = max(most, v)
	}
	return most
}

// tidy returns the next of 1, 2 and 5 times a power of ten.
func tidy(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, f := range []float64{1, 2, 5} {
		if v <= f*ten {
			return f * ten
		}
	}
	return 10 * ten
}

// round removes what adding leaves behind.
func round(v float64) float64 { return math.Round(v*1e6) / 1e6 }
