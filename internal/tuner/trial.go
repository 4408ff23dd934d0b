package tuner

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// The test by which a change is taken back. A change that lets more in is taken
// back when the objective, kept before, is broken in three bins in a row; every
// change is when goodput fell, as a rate and as a share of what was offered, by
// more than the change itself explains and by more than a twentieth, so surely
// that chance does that once in a thousand times (Mann-Whitney, one-sided).
const (
	brokenInARow = 3
	alpha        = 0.001
	margin       = 0.95
	leastBins    = 5
)

// Trial is how a change was watched.
type Trial struct {
	// State is open, kept, taken back, or not judged.
	State string `json:"state"`
	// Test says in words what decided.
	Test string `json:"test,omitempty"`
	// Medians over the bins before and after; 0 = nothing was measured.
	P99Before     float64 `json:"p99BeforeSeconds,omitempty"`
	P99After      float64 `json:"p99AfterSeconds,omitempty"`
	GoodputBefore float64 `json:"goodputBefore,omitempty"` // per second
	GoodputAfter  float64 `json:"goodputAfter,omitempty"`
}

// The states of a trial.
const (
	trialOpen      = "open"
	trialKept      = "kept"
	trialTakenBack = "taken back"
	trialNotJudged = "not judged"
)

// verdict compares the time after a change with the time before. ratio is the
// new value by the old one; objective is in seconds, 0 = none.
func verdict(before, after, objBefore, objAfter []bin, ratio, objective float64) (harm string) {
	broken := objective > 0 && brokenNow(objAfter, objective)
	if ratio > 1 && broken && !mostlyBroken(objBefore, objective) {
		return fmt.Sprintf("p99 was above the objective of %.4gs in %d bins in a row, and mostly was not before", objective, brokenInARow)
	}
	if ratio < 1 && broken {
		return "" // to let more in while the objective is broken is no help
	}
	if len(before) < leastBins || len(after) < leastBins {
		return ""
	}
	explained := min(ratio, 1) * margin
	rateP := fell(column(before, goodRate), column(after, goodRate), explained)
	shareP := fell(column(before, goodShare), column(after, goodShare), explained)
	if p := max(rateP, shareP); p < alpha {
		return fmt.Sprintf("goodput fell by more than the change explains (Mann-Whitney, one-sided, p = %.2g)", p)
	}
	return ""
}

// judged reports whether a change could be judged: requests came in enough bins
// before and after it, and where the objective could be watched before, it could be
// afterwards too. Traffic that is always too thin for a p99 is judged by goodput.
func judged(before, after, objBefore, objAfter []bin, objective float64) bool {
	seen := func(bins []bin, read func(bin) float64) bool { return len(column(bins, read)) >= leastBins }
	return seen(before, goodShare) && seen(after, goodShare) &&
		(objective <= 0 || !seen(objBefore, p99) || seen(objAfter, p99))
}

func goodRate(b bin) float64 { return b.good }

func goodShare(b bin) float64 {
	if b.offered <= 0 {
		return math.NaN()
	}
	return b.good / b.offered
}

func p99(b bin) float64 { return b.p99 }

// brokenNow reports whether the objective is broken in the last few bins, all
// of them.
func brokenNow(bins []bin, objective float64) bool {
	if len(bins) < brokenInARow {
		return false
	}
	for _, b := range bins[len(bins)-brokenInARow:] {
		if !(b.p99 > objective) { // a bin without a quantile breaks nothing
			return false
		}
	}
	return true
}

func mostlyBroken(bins []bin, objective float64) bool {
	n := 0
	for _, b := range bins {
		if b.p99 > objective {
			n++
		}
	}
	return 2*n > len(bins)
}

// column reads one number per bin, and leaves out where there is none.
func column(bins []bin, read func(bin) float64) []float64 {
	out := make([]float64, 0, len(bins))
	for _, b := range bins {
		if v := read(b); !math.IsNaN(v) {
			out = append(out, v)
		}
	}
	return out
}

// fell returns how likely chance alone puts after as far below before, scaled
// by factor, as it is: the one-sided Mann-Whitney test in its normal
// approximation, with ties. 1 when there is too little to say.
func fell(before, after []float64, factor float64) float64 {
	n, m := float64(len(before)), float64(len(after))
	if len(before) < leastBins || len(after) < leastBins {
		return 1
	}
	type ranked struct {
		v    float64
		late bool
	}
	all := make([]ranked, 0, len(before)+len(after))
	for _, v := range before {
		all = append(all, ranked{v * factor, false})
	}
	for _, v := range after {
		all = append(all, ranked{v, true})
	}
	slices.SortFunc(all, func(a, b ranked) int {
		switch {
		case a.v < b.v:
			return -1
		case a.v > b.v:
			return 1
		}
		return 0
	})
	rankSum, ties := 0.0, 0.0
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j].v == all[i].v {
			j++
		}
		mean, k := float64(i+j+1)/2, float64(j-i)
		ties += k*k*k - k
		for ; i < j; i++ {
			if all[i].late {
				rankSum += mean
			}
		}
	}
	u := rankSum - m*(m+1)/2 // small when what came after is smaller
	total := n + m
	variance := n * m / 12 * (total + 1 - ties/(total*(total-1)))
	if variance <= 0 {
		return 1
	}
	z := (u - n*m/2 + 0.5) / math.Sqrt(variance)
	return 0.5 * math.Erfc(-z/math.Sqrt2)
}

// median of the numbers; 0 of none.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// measure fills in the medians of a trial.
func (t *Trial) measure(before, after, objBefore, objAfter []bin) {
	t.P99Before, t.P99After = median(column(objBefore, p99)), median(column(objAfter, p99))
	t.GoodputBefore, t.GoodputAfter = median(column(before, goodRate)), median(column(after, goodRate))
}

// binLength is how long a bin is for a trial of a length.
func binLength(trial time.Duration) time.Duration { return max(time.Second, trial/20) }
