package scenario

import (
	"math"
	"math/rand/v2"
	"time"
)

// ServiceSpec is a distribution of service times.
type ServiceSpec struct {
	// Kind is constant, exponential, lognormal, pareto, bimodal (most requests are
	// exponential, some take a constant time) or classes (two kinds of request,
	// both exponential).
	Kind string `yaml:"kind"`
	// Mean of the distribution; of bimodal and classes, of the common part.
	Mean Duration `yaml:"mean"`
	// Sigma is the deviation of the logarithm, for lognormal.
	Sigma float64 `yaml:"sigma"`
	// Shape is the exponent of the tail, for pareto; > 1. At 2 or less the variance
	// is infinite.
	Shape float64 `yaml:"shape"`
	// Other is what a Share of the requests take, for bimodal and classes.
	Other Duration `yaml:"other"`
	// Share of the requests that take Other, in [0, 1].
	Share float64 `yaml:"share"`
}

// longestService bounds what is drawn where the tail has no end.
const longestService = 24 * time.Hour

// serviceKinds are the values of [ServiceSpec.Kind].
func serviceKinds() []string {
	return []string{"", "constant", "exponential", "lognormal", "pareto", "bimodal", "classes"}
}

// isMixed reports whether the service has two parts.
func (s *ServiceSpec) isMixed() bool { return s.Kind == "bimodal" || s.Kind == "classes" }

// MeanAt returns the mean service time when share of the requests take Other.
func (s *ServiceSpec) MeanAt(share float64) time.Duration {
	if !s.isMixed() {
		return time.Duration(s.Mean)
	}
	return time.Duration(float64(s.Mean)*(1-share) + float64(s.Other)*share)
}

// Draw returns one service time in nanoseconds.
func (s *ServiceSpec) Draw(r *rand.Rand, share float64) float64 {
	mean := float64(s.Mean)
	switch s.Kind {
	case "constant":
		return mean
	case "lognormal":
		return mean * math.Exp(s.Sigma*r.NormFloat64()-s.Sigma*s.Sigma/2)
	case "pareto":
		x := mean * (s.Shape - 1) / s.Shape * math.Exp(r.ExpFloat64()/s.Shape)
		return math.Min(x, float64(longestService))
	case "bimodal":
		if r.Float64() < share {
			return float64(s.Other)
		}
	case "classes":
		if r.Float64() < share {
			mean = float64(s.Other)
		}
	}
	return mean * r.ExpFloat64()
}
