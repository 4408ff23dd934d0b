package main

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
)

// tag is what the boards find each other by.
const tag = "admitd"

// uidPrefix begins the uid of every board; a link names the board by its uid.
const uidPrefix = "admitd-"

// board is one dashboard.
type board struct {
	file, uid, title, about string
	variables               []cog.Builder[dashboard.VariableModel]
	rows                    []row
}

// row is a heading with the panels below it. Widths add up to whole lines of 24.
type row struct {
	title  string
	panels []panel
}

// source is the variable that names the data source, used by everything.
func source() common.DataSourceRef {
	return common.DataSourceRef{Type: new("prometheus"), Uid: new("${datasource}")}
}

// build turns the description into the SDK's form.
func (b board) build() (dashboard.Dashboard, error) {
	d := dashboard.NewDashboardBuilder(b.title).
		Uid(uidPrefix+b.uid).Description(b.about).Tags([]string{tag}).
		Refresh("30s").Time("now-1h", "now").Tooltip(dashboard.DashboardCursorSyncCrosshair).
		Editable().Variables(b.variables).Links(links())
	for _, a := range annotations() {
		d.Annotation(a)
	}
	id := uint32(0)
	for _, r := range b.rows {
		id++
		d.WithRow(dashboard.NewRowBuilder(r.title).Id(id))
		for _, p := range r.panels {
			id++
			d.WithPanel(p.builder(id))
		}
	}
	out, err := d.Build()
	// The SDK would put links and marks away into a menu.
	for i := range out.Links {
		out.Links[i].Placement = nil
	}
	for i := range out.Annotations.List {
		out.Annotations.List[i].Placement = nil
	}
	return out, err
}

// links leads from each board to the others, keeping time and variables.
func links() []cog.Builder[dashboard.DashboardLink] {
	return []cog.Builder[dashboard.DashboardLink]{
		dashboard.NewDashboardLinkBuilder("admitd boards").Type(dashboard.DashboardLinkTypeDashboards).
			Tags([]string{tag}).AsDropdown(false).IncludeVars(true).KeepTime(true),
	}
}

// annotations marks on every board what changes the behaviour of the gate from
// outside. Their windows are fixed: Grafana fills in no rate interval here.
func annotations() []cog.Builder[dashboard.AnnotationQuery] {
	mark := func(name, colour, expr string) cog.Builder[dashboard.AnnotationQuery] {
		return dashboard.NewAnnotationQueryBuilder().Name(name).Enable(true).IconColor(colour).
			Datasource(source()).Expr(expr).
			Target(prometheus.NewDataqueryBuilder().Expr(expr).RefId("Anno").Datasource(source()))
	}
	return []cog.Builder[dashboard.AnnotationQuery]{
		mark("Configuration reloads", "blue", `sum by (instance, result) (increase(admitd_config_reloads_total{`+process+`}[1m])) > 0`),
		mark("Clock fallback", "red", `max by (instance, ingress) (admitd_fallback_active{`+process+`}) > 0`),
		mark("Draining", "purple", `max by (instance, ingress) (admitd_ingress_draining{`+process+`}) > 0`),
		mark("Tuner changes", "orange", `sum by (instance, policy) (increase(admitd_tuner_changes_total{`+process+`}[1m])) > 0`),
	}
}

// variables are those of every board, where the data is and of which processes, and more.
func variables(more ...cog.Builder[dashboard.VariableModel]) []cog.Builder[dashboard.VariableModel] {
	return slices.Concat([]cog.Builder[dashboard.VariableModel]{datasourceVariable()}, processVariables(), more)
}

// datasourceVariable says where the data is.
func datasourceVariable() cog.Builder[dashboard.VariableModel] {
	return dashboard.NewDatasourceVariableBuilder("datasource").Label("Data source").Type("prometheus").
		Description("The Prometheus that scrapes admitd.")
}

// processVariables choose processes, each within what the ones before it chose.
func processVariables() []cog.Builder[dashboard.VariableModel] {
	return []cog.Builder[dashboard.VariableModel]{
		choice("job", "Job", "label_values(admitd_build_info, job)", true).
			Description("Jobs of Prometheus that scrape admitd."),
		choice("namespace", "Namespace", `label_values(admitd_build_info{job=~"$job"}, namespace)`, true).AllValue(".*").
			Description("Namespaces of Kubernetes; elsewhere there are none."),
		choice("pod", "Pod", `label_values(admitd_build_info{job=~"$job",namespace=~"$namespace"}, pod)`, true).AllValue(".*").
			Description("Pods of Kubernetes; elsewhere there are none."),
		choice("instance", "Instance", `label_values(admitd_build_info{job=~"$job",namespace=~"$namespace",pod=~"$pod"}, instance)`, true).
			Description("Which admitd processes."),
	}
}

func ingressVariable(many bool) cog.Builder[dashboard.VariableModel] {
	return choice("ingress", "Ingress", `label_values(admitd_requests_exempted_total{`+process+`}, ingress)`, many).
		Description("Ingress, as the configuration names it.")
}

func partitionVariable(many bool) cog.Builder[dashboard.VariableModel] {
	return choice("partition", "Partition", `label_values(admitd_requests_received_total{`+process+`,ingress=~"$ingress"}, partition)`, many).
		Description("Partition, as metrics name it: those of clients' keys share the name default.")
}

// choice is a variable whose values Prometheus knows; many allows several, and
// all.
func choice(name, label, query string, many bool) *dashboard.QueryVariableBuilder {
	v := dashboard.NewQueryVariableBuilder(name).Label(label).Datasource(source()).
		Query(dashboard.StringOrMap{String: new(query)}).Definition(query).
		Refresh(dashboard.VariableRefreshOnTimeRangeChanged).Sort(dashboard.VariableSortAlphabeticalAsc)
	if many {
		v.Multi(true).IncludeAll(true).AllValue(".+").Current(dashboard.VariableOption{
			Selected: new(true),
			Text:     dashboard.StringOrArrayOfString{ArrayOfString: []string{"All"}},
			Value:    dashboard.StringOrArrayOfString{ArrayOfString: []string{"$__all"}},
		})
	}
	return v
}
