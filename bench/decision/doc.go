// Package decision measures what one decision costs: the gate beside other
// admission libraries for Go and beside the token bucket of the Go project.
// It is a module of its own, so that the peers stay out of the product.
// scripts/bench-decision.sh runs it and prints how they compare.
package decision
