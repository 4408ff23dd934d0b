package policy

import (
	"math"
	"time"
)

// Rule wishes settings to move. One goroutine at a time may use it.
type Rule interface {
	// Observe is called at every moment with the values of the rule's signals,
	// in the order in which it names them. It is not called while one of them
	// is not trusted.
	Observe(now time.Time, values []float64)
	// Wish says where one setting should go. It changes nothing in the rule,
	// so that one rule may move several settings.
	Wish(s Setting) Wish
	// Moved is called when a wish was granted.
	Moved(now time.Time)
}

// Setting is what a rule knows of the setting that it moves.
type Setting struct {
	Value float64 // in force
	Base  float64 // in the configuration: what it is without the tuner
	// Bounds that the value must keep in any case.
	Min, Max float64
	// Slack is true when nothing is refused because of the setting: to raise
	// it would change nothing now, and too much later.
	Slack bool
}

// Wish is where a rule would have a setting go, and why.
type Wish struct {
	Value float64
	// Why is the rule with its numbers, as a sentence for a person.
	Why string
}

// stay wishes that nothing moves.
func stay(s Setting, why string) Wish { return Wish{s.Value, why} }

// raise wishes for more, unless what there is is not used up.
func raise(s Setting, value float64, why string) Wish {
	if s.Slack {
		return stay(s, why+"; not raised, as nothing is refused because of it")
	}
	return Wish{value, why}
}

// finite guards arithmetic on what signals say.
func finite(v, otherwise float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return otherwise
	}
	return v
}
