package history

import (
	"fmt"
	"strconv"
	"time"
)

// number words a rate.
func number(v float64) string {
	switch {
	case v < 9.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v < 99_999.5:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v < 999_500:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	case v >= 99.95e6:
		return strconv.FormatFloat(v/1e6, 'f', 0, 64) + "M"
	}
	return strconv.FormatFloat(v/1e6, 'f', 1, 64) + "M"
}

// percent words a share of 0 to 1. What is not all is not said to be.
func percent(share float64) string {
	switch {
	case share > 0 && share < 0.01:
		return "< 1 %"
	case share < 1 && share > 0.99:
		return "> 99 %"
	}
	return fmt.Sprintf("%.0f %%", 100*min(max(share, 0), 1))
}

// millis words a latency.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if d > 0 && ms < 0.005 {
		return "< 0.01 ms"
	}
	if ms < 999.5 {
		return figures(ms) + " ms"
	}
	return figures(ms/1000) + " s"
}

// times words a factor.
func times(ratio float64) string {
	switch {
	case ratio < 99.95:
		return strconv.FormatFloat(ratio, 'f', 1, 64)
	case ratio < 1000:
		return strconv.FormatFloat(ratio, 'f', 0, 64)
	}
	return "more than 1000"
}

// figures words a number that is not negative with three figures, and no more behind the
// point than two.
func figures(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// age words how long ago something was.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", max(d, 0).Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// plural words how many there are of something.
func plural(n int, one string) string {
	if n == 1 {
		return one
	}
	return one + "s"
}
