package main

import (
	"strconv"

	"github.com/grafana/grafana-foundation-sdk/go/bargauge"
	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/cog/variants"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/heatmap"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/stat"
	"github.com/grafana/grafana-foundation-sdk/go/statetimeline"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

// kind is how a panel draws. Each is built into Grafana.
type kind int

const (
	series kind = iota // lines over time
	stacked
	number // one big number
	bars   // the present values, longest first
	heat   // histogram buckets over time
	states // what is on and off over time
)

// Units of panels, as Grafana spells them.
const (
	perSecond = "reqps"
	seconds   = "s"
	share     = "percentunit"
	count     = "short"
	bytesUnit = "bytes"
	factor    = "none"
	rate      = "ops"
)

// panel is one panel. Height is in the grid's units, 0 = 8.
type panel struct {
	kind               kind
	title, about, unit string
	w, h               uint32
	queries            []query
	words              []word
	steps              []step
	max                float64 // of the axis, 0 = by the data
	negative           bool    // values may be below zero
	toPartition        bool    // a click leads to the partition's board
}

// query is one expression and what its lines are called.
type query struct{ expr, legend string }

// word stands for a value.
type word struct {
	value        int
	text, colour string
}

// step is a colour from a value upwards.
type step struct {
	from   float64
	colour string
}

// built hands a finished panel to the board's builder.
type built struct {
	panel dashboard.Panel
	err   error
}

// Build implements cog.Builder.
func (b built) Build() (dashboard.Panel, error) { return b.panel, b.err }

// builder returns the panel in the SDK's form.
func (p panel) builder(id uint32) cog.Builder[dashboard.Panel] {
	out, err := p.visual()
	if err != nil {
		return built{err: err}
	}
	ds := source()
	out.Id = new(id)
	out.Title, out.Description, out.Datasource = new(p.title), new(p.about), &ds
	if p.h == 0 {
		p.h = 8
	}
	out.GridPos = &dashboard.GridPos{W: p.w, H: p.h}
	for i, q := range p.queries {
		target, err := p.target(i, q)
		if err != nil {
			return built{err: err}
		}
		out.Targets = append(out.Targets, target)
	}
	p.fields(&out)
	return built{panel: out}
}

// target is one query of the panel.
func (p panel) target(i int, q query) (variants.Dataquery, error) {
	t := prometheus.NewDataqueryBuilder().Expr(q.expr).LegendFormat(q.legend).
		RefId(string(rune('A' + i))).Datasource(source()).Range()
	switch p.kind {
	case bars:
		t.Instant()
	case heat:
		t.Format(prometheus.PromQueryFormatHeatmap)
	default:
		if p.unit == seconds && p.kind == series {
			t.Exemplar(true)
		}
	}
	return t.Build()
}

// fields sets what every kind has: unit, colours, words and links.
func (p panel) fields(out *dashboard.Panel) {
	if out.FieldConfig == nil {
		out.FieldConfig = dashboard.NewFieldConfigSource()
	}
	d := &out.FieldConfig.Defaults
	d.Unit = new(p.unit)
	if p.kind != heat && !p.negative {
		d.Min = new(0.0)
	}
	if p.max > 0 {
		d.Max = new(p.max)
	}
	d.NoValue = new("–")
	if len(p.words) > 0 {
		options := map[string]dashboard.ValueMappingResult{}
		for i, w := range p.words {
			options[strconv.Itoa(w.value)] = dashboard.ValueMappingResult{
				Text: new(w.text), Color: new(w.colour), Index: new(int32(i)),
			}
		}
		d.Mappings = []dashboard.ValueMapping{{ValueMap: &dashboard.ValueMap{Type: dashboard.MappingTypeValueToText, Options: options}}}
	}
	if len(p.steps) > 0 {
		t := dashboard.ThresholdsConfig{Mode: dashboard.ThresholdsModeAbsolute, Steps: []dashboard.Threshold{{Color: "green"}}}
		for _, s := range p.steps {
			t.Steps = append(t.Steps, dashboard.Threshold{Value: new(s.from), Color: s.colour})
		}
		d.Thresholds = &t
		d.Color = &dashboard.FieldColor{Mode: dashboard.FieldColorModeIdThresholds}
	}
	if p.toPartition {
		d.Links = []dashboard.DashboardLink{{
			Title: "Show this partition", Type: dashboard.DashboardLinkTypeLink, Tags: []string{},
			Url: new("/d/" + uidPrefix + "partition?${datasource:queryparam}&${__url_time_range}" +
				"&var-instance=${instance}&var-ingress=${__field.labels.ingress}&var-partition=${__field.labels.partition}"),
		}}
	}
}

// visual returns the panel with what only its kind has.
func (p panel) visual() (dashboard.Panel, error) {
	last := common.NewReduceDataOptionsBuilder().Calcs([]string{"lastNotNull"}).Values(false)
	legend := common.NewVizLegendOptionsBuilder().DisplayMode(common.LegendDisplayModeList).
		Placement(common.LegendPlacementBottom).ShowLegend(true)
	tip := common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)
	switch p.kind {
	case number:
		return stat.NewPanelBuilder().ReduceOptions(last).GraphMode(common.BigValueGraphModeArea).
			ColorMode(common.BigValueColorModeValue).Orientation(common.VizOrientationAuto).Build()
	case bars:
		return bargauge.NewPanelBuilder().ReduceOptions(last).Orientation(common.VizOrientationHorizontal).
			DisplayMode(common.BarGaugeDisplayModeBasic).Build()
	case heat:
		return heatmap.NewPanelBuilder().Calculate(false).Build()
	case states:
		return statetimeline.NewPanelBuilder().MergeValues(true).ShowValue(common.VisibilityModeNever).
			Legend(common.NewVizLegendOptionsBuilder().ShowLegend(false).DisplayMode(common.LegendDisplayModeList).Placement(common.LegendPlacementBottom)).Build()
	case stacked:
		return timeseries.NewPanelBuilder().Legend(legend).Tooltip(tip).FillOpacity(40).LineWidth(1).
			Stacking(common.NewStackingConfigBuilder().Mode(common.StackingModeNormal).Group("A")).Build()
	default:
		return timeseries.NewPanelBuilder().Legend(legend).Tooltip(tip).FillOpacity(5).LineWidth(2).
			ShowPoints(common.VisibilityModeNever).Build()
	}
}
