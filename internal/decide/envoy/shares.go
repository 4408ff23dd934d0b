package envoy

import (
	"math"
	"slices"
)

const (
	least    = 0.05 // of the rate is shared evenly, whatever is wanted: who was idle may begin
	headroom = 1.1  // a share is what was wanted and a tenth, so that demand can grow
	quantum  = 1.03 // shares are powers of it: Envoy fills a bucket anew when its numbers change
)

// split shares rate among those who want it, in the order of wants: everybody
// a little, then what they want and a tenth, as far as that goes evenly round, and
// what is left to all alike. Someone new wants a negative amount: an even share.
// The sum never passes rate, and nobody has nothing of it.
func split(rate float64, wants []float64) []float64 {
	if len(wants) == 0 {
		return nil
	}
	even := rate / float64(len(wants))
	order := make([]int, len(wants))
	needs := make([]float64, len(wants))
	for i, w := range wants {
		order[i] = i
		if needs[i] = w * headroom; w < 0 {
			needs[i] = even
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		if needs[a] < needs[b] {
			return -1
		}
		return 1
	})
	out, left := make([]float64, len(wants)), rate*(1-least)
	for n, i := range order {
		fair := left / float64(len(order)-n)
		out[i] = min(needs[i], fair)
		left -= out[i]
	}
	spare := (max(left, 0) + rate*least) / float64(len(wants))
	for i := range out {
		out[i] = quantised(out[i] + spare)
	}
	return out
}

// quantised rounds a share down to a power of quantum.
func quantised(share float64) float64 {
	if !(share > 0) {
		return 0
	}
	return min(math.Pow(quantum, math.Floor(math.Log(share)/math.Log(quantum)+1e-9)), share)
}
