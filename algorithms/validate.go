package algorithms

import (
	"errors"
	"fmt"
	"time"
)

// maxLimit bounds every limit: beyond it a limit protects nothing.
const maxLimit = 1_000_000

// check joins the problems found in one algorithm's options.
func check(algorithm string, problems ...error) error {
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("algorithms: %s: %w", algorithm, err)
	}
	return nil
}

// inRange reports value outside [low, high].
func inRange(key string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s must be in [%d, %d] (%d)", key, low, high, value)
	}
	return nil
}

// within reports value when ok is false.
func within(key string, value float64, want string, ok bool) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s must be in %s (%v)", key, want, value)
}

// positive reports a duration that is not.
func positive(key string, d time.Duration) error {
	if d > 0 {
		return nil
	}
	return fmt.Errorf("%s must be > 0 (%v)", key, d)
}

// bounds reports limits that do not keep 1 ≤ low ≤ initial ≤ high.
func bounds(initial, low, high int) error {
	return errors.Join(
		inRange("minLimit", low, 1, maxLimit),
		inRange("maxLimit", high, low, maxLimit),
		inRange("initialLimit", initial, low, high),
	)
}

// between reports a duration outside [low, high].
func between(key string, d, low, high time.Duration) error {
	if d < low || d > high {
		return fmt.Errorf("%s must be in [%v, %v] (%v)", key, low, high, d)
	}
	return nil
}
