// Package arch keeps the plan of the house: which room may import which, and a
// few habits that no linter knows. It holds tests only.
package arch
