package falsify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// Kind is what is searched for.
type Kind string

// What can be searched for.
const (
	Goodput      Kind = "goodput"      // little is answered in time in an overload
	FalseRefused Kind = "falseRefused" // much is refused below the capacity
)

// Coordinates of a [Point].
const (
	axisWorkers = iota
	axisService
	axisDistribution
	axisSpread
	axisShare
	axisDiscipline
	axisThrash
	axisSerial
	axisCrosstalk
	axisQueue
	axisCancelled
	axisFault
	axisFaultSize
	axisFaultAt
	axisFaultLength
	axisLoad
	axisPattern
	axisPatternSize
	axisLoop
	axisThink
	axisObjective
	axisPatience
	axisRetries
	axisTenants
	axes
)

// Point is one scenario: each coordinate, in [0, 1), is one choice.
type Point [axes]float64

// Bounds of a scenario, so that one run takes a fraction of a second.
const (
	maxArrivals  = 20_000
	leastLength  = 40 * time.Second
	leastService = 300 // mean services in a run
	// Every 100 ms of a run all tenants are looked at.
	longestTenants = 100 * time.Second
)

// Draw returns a point at random.
func Draw(r *rand.Rand) (p Point) {
	for i := range p {
		p[i] = r.Float64()
	}
	return p
}

// Move returns a point near p: some coordinates are moved a little, few are drawn
// anew.
func (p Point) Move(r *rand.Rand) Point {
	for i := range p {
		switch u := r.Float64(); {
		case u < 0.04:
			p[i] = r.Float64()
		case u < 0.25:
			p[i] = min(math.Abs(p[i]+0.12*r.NormFloat64()), 1)
			p[i] = min(p[i], math.Nextafter(1, 0))
		}
	}
	return p
}

// between maps u in [0, 1) to [from, to), evenly over the orders of magnitude.
func between(u, from, to float64) float64 { return from * math.Pow(to/from, u) }

// chosen tells whether u is within the last part of its axis, and where there.
func chosen(u, part float64) (within float64, ok bool) {
	within = (u - (1 - part)) / part
	return within, within >= 0
}

// draft is a scenario that is being written.
type draft struct {
	p        Point
	kind     Kind
	workers  int
	mean     time.Duration // of the service, over all requests
	spec     scenario.ServiceSpec
	load     float64
	length   time.Duration
	capacity float64
	lines    strings.Builder
}

// Text returns the scenario of a point as a file with that name.
func (p Point) Text(kind Kind, name, about string) string {
	d := &draft{p: p, kind: kind}
	d.scale()
	d.line("name: %s", name)
	d.line("about: %s", strconv.Quote(about))
	d.line("for: %v", d.length)
	d.line("seeds: 3")
	d.backend()
	d.callers()
	d.demand()
	d.fault()
	from := d.length / 4
	if kind == FalseRefused {
		from = d.length * 35 / 100 // a brown-out has ended, and its end is some time ago
	}
	d.line("windows: [{ name: measured, from: %v, to: %v }]", rounded(from), d.length)
	return d.lines.String()
}

// line adds one line.
func (d *draft) line(format string, args ...any) { fmt.Fprintf(&d.lines, format+"\n", args...) }

// rounded cuts a duration to two digits or so, as people write them.
func rounded(t time.Duration) time.Duration {
	unit := time.Microsecond
	for unit*100 < t {
		unit *= 10
	}
	return max(t.Round(unit), 10*time.Microsecond)
}

// number renders x with three digits.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

// scale chooses sizes such that a run has few enough arrivals.
func (d *draft) scale() {
	p := &d.p
	if d.shares() {
		d.workers = int(between(p[axisWorkers], 1, 33))
	} else {
		d.workers = int(between(p[axisWorkers], 1, 257))
	}
	d.load = between(p[axisLoad], 1.05, 20)
	if d.kind == FalseRefused {
		d.load = 0.2 + 0.55*p[axisLoad]
	}
	mean := time.Duration(between(p[axisService], 1e6, 10e9))
	for {
		d.service(mean)
		d.length = rounded(max(leastLength, leastService*d.mean))
		n := d.load * float64(d.workers) / d.mean.Seconds() * d.length.Seconds()
		if n <= maxArrivals {
			break
		}
		if d.length > leastLength && d.workers > 1 {
			d.workers = max(int(float64(d.workers)*maxArrivals/n), 1)
			continue
		}
		mean = time.Duration(float64(mean) * min(n/maxArrivals, 10) * 1.01)
	}
	b := scenario.BackendSpec{Workers: d.workers, Service: d.spec, Contention: d.contention()}
	d.capacity = b.Capacity()
}

// shares tells whether the backend's requests share its processors.
func (d *draft) shares() bool {
	_, ok := chosen(d.p[axisDiscipline], 0.4)
	return ok
}

// service chooses the distribution of service times around that of most requests.
func (d *draft) service(mean time.Duration) {
	p := &d.p
	s := scenario.ServiceSpec{Mean: scenario.Duration(rounded(mean))}
	switch u := p[axisDistribution]; {
	case u < 0.15:
		s.Kind = "constant"
	case u < 0.4:
		s.Kind = "exponential"
	case u < 0.55:
		s.Kind, s.Sigma = "lognormal", math.Round(100*between(p[axisSpread], 0.3, 2))/100
	case u < 0.7:
		s.Kind, s.Shape = "pareto", math.Round(100*(1.3+1.7*(1-p[axisSpread])))/100
	default:
		s.Kind = "bimodal"
		if u >= 0.85 {
			s.Kind = "classes"
		}
		s.Share = math.Round(1000*between(p[axisShare], 0.005, 0.5)) / 1000
		other := min(float64(mean)*between(p[axisSpread], 4, 200), 20e9)
		s.Other = scenario.Duration(rounded(time.Duration(other)))
	}
	d.spec, d.mean = s, s.MeanAt(s.Share)
}

// contention chooses what requests cost one another.
func (d *draft) contention() (c scenario.ContentionSpec) {
	if u, ok := chosen(d.p[axisSerial], 0.3); ok {
		c.Serial = round3(between(u, 0.001, 0.05))
	}
	if u, ok := chosen(d.p[axisCrosstalk], 0.2); ok {
		c.Crosstalk = round3(between(u, 1e-5, 1e-3))
	}
	return c
}

// round3 keeps three digits.
func round3(x float64) float64 {
	v, _ := strconv.ParseFloat(number(x), 64)
	return v
}

// backend writes the backend.
func (d *draft) backend() {
	s := &d.spec
	service := fmt.Sprintf("kind: %s, mean: %v", s.Kind, time.Duration(s.Mean))
	switch s.Kind {
	case "lognormal":
		service += ", sigma: " + number(s.Sigma)
	case "pareto":
		service += ", shape: " + number(s.Shape)
	case "bimodal", "classes":
		service += fmt.Sprintf(", other: %v, share: %s", time.Duration(s.Other), number(s.Share))
	}
	text := fmt.Sprintf("workers: %d, service: { %s }", d.workers, service)
	if d.shares() {
		text += ", discipline: sharing"
	} else if u, ok := chosen(d.p[axisQueue], 0.25); ok {
		text += fmt.Sprintf(", queue: %d, queueTimeout: %v", 1+int(float64(d.workers)*between(u, 0.5, 20)), rounded(time.Duration(float64(d.mean)*between(u, 2, 20))))
	}
	if u, ok := chosen(d.p[axisThrash], 0.5); ok {
		text += ", thrash: " + number(between(u, 0.0005, 0.05))
	}
	if c := d.contention(); c != (scenario.ContentionSpec{}) {
		text += fmt.Sprintf(", contention: { serial: %s, crosstalk: %s }", number(c.Serial), number(c.Crosstalk))
	}
	if _, ok := chosen(d.p[axisCancelled], 0.3); ok {
		text += ", cancelled: stops"
	}
	d.line("backend: { %s }", text)
}

// callers writes what callers want and do.
func (d *draft) callers() {
	p := &d.p
	objective := rounded(time.Duration(float64(d.mean) * between(p[axisObjective], 5, 20)))
	timeout := rounded(time.Duration(float64(objective) * between(p[axisPatience], 1, 10)))
	d.line("objective: %v", objective)
	d.line("timeout: %v", timeout)
	if timeout > 15*time.Second {
		d.line("backendTimeout: %v", 2*timeout)
	}
	switch u := p[axisRetries]; {
	case u < 0.5:
	case u < 0.7:
		d.line("clients: { policy: naive, retries: %d }", 1+int(15*(u-0.5)))
	case u < 0.8:
		d.line("clients: { policy: driver, budget: true }")
	case u < 0.9:
		d.line("clients: { policy: slowdown }")
	default:
		d.line("clients: { patience: { least: %v, most: %v }, tellDeadline: %t }", rounded(timeout/5), rounded(2*timeout), u >= 0.95)
	}
	if u, ok := chosen(p[axisTenants], 0.2); ok && d.length <= longestTenants {
		d.line("share: one")
		d.line("tenants: { count: %d }", int(between(u, 2, 100)))
	}
}

// demand writes the load.
func (d *draft) demand() {
	p := &d.p
	if u, ok := chosen(p[axisLoop], 0.25); ok {
		think := time.Duration(float64(d.mean) * between(p[axisThink], 0.5, 30))
		count := max(int(d.load*d.capacity*(think+d.mean).Seconds()), 1)
		if d.kind == Goodput || count <= d.workers*4 {
			d.line("callers: { count: %d, think: %v }", count, rounded(think))
			if u < 0.5 || d.kind == FalseRefused {
				return
			}
			d.line("load: [{ at: 0s, load: 0.3 }]")
			return
		}
	}
	at := func(share float64) time.Duration { return rounded(time.Duration(float64(d.length) * share)) }
	load, size := number(d.load), p[axisPatternSize]
	switch u := p[axisPattern]; {
	case u < 0.3 || d.kind == FalseRefused && u < 0.6:
		d.line("load: [{ at: 0s, load: %s }]", load)
	case d.kind == FalseRefused && u < 0.8:
		d.line("load: [{ at: 0s, load: %s }]", load)
		high := min(1+size, 0.85/d.load)
		if high > 1 {
			d.line("arrivals: { high: %s, on: %v, off: %v }", number(high), rounded(d.length/100), rounded(d.length/40))
		}
	case d.kind == FalseRefused:
		d.line("load: [{ at: 0s, load: %s }]", load)
		d.line("arrivals: { batch: %d }", 1+int(size*float64(d.workers)))
	case u < 0.5:
		d.line("load: [{ at: 0s, load: %s }, { at: %v, load: %s }]", number(0.2+0.7*size), at(0.35), load)
	case u < 0.65:
		d.line("load: [{ at: 0s, load: %s }, { at: %v, load: %s }, { at: %v, load: %s }]", number(0.2+0.7*size), at(0.3), load, at(0.3+0.4*size), number(1.05+0.5*size))
	case u < 0.75:
		d.line("load: [{ at: 0s, load: 0.5 }, { at: %v, over: %v, load: %s }]", at(0.25), at(0.05+0.5*size), load)
	case u < 0.9:
		d.line("load: [{ at: 0s, load: %s }]", load)
		d.line("arrivals: { high: %s, on: %v, off: %v }", number(between(size, 1.2, 2.9)), at(0.01), at(0.025))
	default:
		d.line("load: [{ at: 0s, load: %s }]", load)
		d.line("arrivals: { batch: %d }", 2+int(between(size, 1, 100)))
	}
}

// fault writes what goes wrong.
func (d *draft) fault() {
	p := &d.p
	u, ok := chosen(p[axisFault], 0.6)
	if !ok {
		return
	}
	share := func(x float64) time.Duration { return rounded(time.Duration(float64(d.length) * x)) }
	from, until := share(0.35+0.25*p[axisFaultAt]), share(0.65+0.25*p[axisFaultLength])
	if d.kind == FalseRefused {
		from, until = share(0.1), share(0.15+0.05*p[axisFaultLength])
	}
	slow := number(between(p[axisFaultSize], 1.3, 10))
	switch {
	case u < 0.3 || d.kind == FalseRefused:
		d.line("health: [{ at: %v, slow: %s }, { at: %v }]", from, slow, until)
	case u < 0.45:
		var steps []string
		for x := 0.2; x < 0.95; x += 0.1 {
			steps = append(steps, fmt.Sprintf("{ at: %v, slow: %s }, { at: %v }", share(x), slow, share(x+0.01+0.06*p[axisFaultLength])))
		}
		d.line("health: [%s]", strings.Join(steps, ", "))
	case u < 0.6:
		d.line("health: [{ at: %v, slow: %s }]", from, slow)
	case u < 0.75:
		d.line("health: [{ at: %v, workers: %d }]", from, int(max(float64(d.workers)*between(p[axisFaultSize], 0.1, 4), 1)))
	case u < 0.85:
		d.line("health: [{ at: %v, frozen: true }, { at: %v }]", from, from+share(0.005+0.05*p[axisFaultLength]))
	default:
		every := share(between(p[axisFaultAt], 0.005, 0.1))
		d.line("pauses: { every: %v, for: %v }", every, rounded(time.Duration(float64(every)*(0.05+0.4*p[axisFaultLength]))))
	}
}
