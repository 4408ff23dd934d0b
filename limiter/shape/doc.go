// Package shape learns what requests cost that ask for the same with other values, and
// finds who takes too much: a [Table] of what a gate has seen, and for each partition
// the [Dominant], which is capped while others find no room.
//
// It knows neither requests nor permits: it is told what became of them.
package shape
