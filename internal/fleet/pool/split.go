package pool

import (
	"cmp"
	"math"
	"slices"
)

// Split shares a limit out among gates, in whole permits, at least one each:
// everybody gets what he wants, or as much as all who want more, and what is left
// goes to all alike. What does not divide goes to the largest parts, and among
// equals by turns. The sum is the limit, or the number of gates where that is
// more.
func Split(limit int, want []float64, turn int) []int {
	n := len(want)
	shares := make([]int, n)
	if n == 0 {
		return shares
	}
	parts := fair(float64(max(limit-n, 0)), want)
	left := max(limit-n, 0)
	order := make([]int, n)
	for i, p := range parts {
		whole := int(math.Floor(p + 1e-9))
		shares[i] = 1 + whole
		left -= whole
		order[i] = (i + turn) % n
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(parts[b]-math.Floor(parts[b]+1e-9), parts[a]-math.Floor(parts[a]+1e-9))
	})
	for i := 0; i < left && i < n; i++ {
		shares[order[i]]++
	}
	return shares
}

// fair shares a capacity out, above the one permit that everybody has.
func fair(capacity float64, want []float64) []float64 {
	n := len(want)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(want[a], want[b]) })
	parts := make([]float64, n)
	left := capacity
	for k, i := range order {
		even := left / float64(n-k)
		parts[i] = min(max(want[i]-1, 0), even)
		left -= parts[i]
	}
	for i := range parts {
		parts[i] += left / float64(n)
	}
	return parts
}
