package parts

import (
	"errors"
	"fmt"
	"time"
)

// MaxLimit bounds every limit: beyond it a limit protects nothing.
const MaxLimit = 1_000_000

// Check joins the problems found in one algorithm's options.
func Check(algorithm string, problems ...error) error {
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("algorithms: %s: %w", algorithm, err)
	}
	return nil
}

// InRange reports value outside [low, high].
func InRange(key string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s must be in [%d, %d] (%d)", key, low, high, value)
	}
	return nil
}

// Within reports value when ok is false.
func Within(key string, value float64, want string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s must be in %s (%v)", key, want, value)
}

// Positive reports a duration that is not.
func Positive(key string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return fmt.Errorf("%s must be > 0 (%v)", key, d)
}

// Bounds reports limits that do not keep 1 ≤ low ≤ initial ≤ high.
func Bounds(initial, low, high int) error {
	return errors.Join(
		InRange("minLimit", low, 1, MaxLimit),
		InRange("maxLimit", high, low, MaxLimit),
		InRange("initialLimit", initial, low, high),
	)
}

// Initial returns where a limit within [low, high] begins when nobody says so.
func Initial(low, high int) int { return min(max(20, low), high) }

// Between reports a duration outside [low, high].
func Between(key string, d, low, high time.Duration) error {
	if d < low || d > high {
		return fmt.Errorf("%s must be in [%v, %v] (%v)", key, low, high, d)
	}
	return nil
}

// Or returns value, or fallback when value is zero.
func Or[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}
