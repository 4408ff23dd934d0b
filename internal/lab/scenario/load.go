package scenario

import (
	"math"
	"math/rand/v2"
	"time"
)

// rampSteps is how many steps a ramp is made of.
const rampSteps = 50

// Demand is the part of a [Scenario] about who asks, and how much.
type Demand struct {
	// Load steps, in order of time. The first one begins at 0; none where there are
	// Callers = no load but theirs.
	Load []LoadStep `yaml:"load"`
	// Scale is a factor on the load, for variants; 0 = 1.
	Scale float64 `yaml:"scale"`
	// Arrivals say how they bunch.
	Arrivals ArrivalSpec `yaml:"arrivals"`
	// Bursts are requests that all arrive at one instant, on top of the load.
	Bursts []Burst `yaml:"bursts"`
	// Callers are a fixed pool, beside the load or instead of it.
	Callers CallerSpec `yaml:"callers"`
	// Tenants split the load into keys.
	Tenants TenantSpec `yaml:"tenants"`
	// Timeout is when a client gives an attempt up, unless Clients.Patience says
	// more. The gate is not told; see Clients.TellDeadline.
	Timeout Duration `yaml:"timeout"`
	// Clients say what clients do with failures.
	Clients ClientSpec `yaml:"clients"`
}

// LoadStep sets the offered load from At on.
type LoadStep struct {
	At Duration `yaml:"at"`
	// Load is a multiple of the healthy backend's capacity.
	Load float64 `yaml:"load"`
	// Over is how long it takes to get there from the load before, evenly; 0 =
	// at once.
	Over Duration `yaml:"over"`
}

// ArrivalSpec says how arrivals bunch. The zero value is a Poisson process.
type ArrivalSpec struct {
	// High is the factor on the load during bursts of mean length On, which come
	// after calm times of mean length Off, both exponential. The load of the calm
	// times is such that the mean is what the steps say. 0 = no bursts.
	High float64  `yaml:"high"`
	On   Duration `yaml:"on"`
	Off  Duration `yaml:"off"`
	// Batch requests arrive at the same instant; 0 = 1.
	Batch int `yaml:"batch"`
}

// Low returns the factor on the load of the calm times.
func (a *ArrivalSpec) Low() float64 {
	return 1 + float64(a.On)/float64(max(a.Off, 1))*(1-a.High)
}

// Burst is a number of requests at one instant, once or every so often.
type Burst struct {
	At       Duration `yaml:"at"`
	Every    Duration `yaml:"every"` // 0 = once
	Requests int      `yaml:"requests"`
}

// CallerSpec is a closed loop: a pool whose members each have one request on its
// way at most. Whoever has an answer, a refusal or no more patience thinks, and then
// asks again, so that a slow backend is asked less. The zero value is no pool.
type CallerSpec struct {
	Count int `yaml:"count"`
	// Think is the mean time, exponential, from the end of a caller's request to its
	// next; > 0.
	Think Duration `yaml:"think"`
	// Stay says that each keeps to one of the gates, as a pool of connections does;
	// otherwise every request comes to one by chance.
	Stay bool `yaml:"stay"`
}

// Asking returns the requests per second of the pool if each took so long.
func (c *CallerSpec) Asking(each time.Duration) float64 {
	return float64(c.Count) / max(time.Duration(c.Think)+each, 1).Seconds()
}

// TenantSpec splits the load into keys.
type TenantSpec struct {
	// Count of tenants that share the load evenly; 0 = one, without a key.
	Count int `yaml:"count"`
	// Noisy is the load of one further tenant, as a multiple of the capacity.
	Noisy float64 `yaml:"noisy"`
	// Max is the bound on partitions; 0 = 1000.
	Max int `yaml:"max"`
}

// PatienceSpec is how long clients wait for an answer: evenly distributed over
// the orders of magnitude from Least to Most, where clients are impatient in
// different ways. The zero value is the scenario's timeout for all.
type PatienceSpec struct {
	Least Duration `yaml:"least"`
	Most  Duration `yaml:"most"`
}

// Drawn returns a function that draws the patience of one client.
func (p *PatienceSpec) Drawn(r *rand.Rand, all time.Duration) func() time.Duration {
	if p.Most == 0 {
		return func() time.Duration { return all }
	}
	ratio := math.Log(float64(p.Most) / float64(p.Least))
	return func() time.Duration { return time.Duration(float64(p.Least) * math.Exp(ratio*r.Float64())) }
}

// LoadSteps returns the load with its ramps made of steps, scaled.
func (d *Demand) LoadSteps() []LoadStep {
	var list []LoadStep
	scale := d.Scale
	if scale == 0 {
		scale = 1
	}
	before := 0.0
	for _, step := range d.Load {
		for i := range rampLength(step.Over) {
			share := float64(i+1) / float64(rampLength(step.Over))
			list = append(list, LoadStep{
				At:   step.At + Duration(float64(step.Over)*float64(i)/float64(rampLength(step.Over))),
				Load: scale * (before + (step.Load-before)*share),
			})
		}
		before = step.Load
	}
	return list
}

// rampLength returns how many steps a change takes.
func rampLength(over Duration) int {
	if over <= 0 {
		return 1
	}
	return rampSteps
}
