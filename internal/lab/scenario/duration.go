package scenario

import (
	"errors"
	"time"
)

// Duration is a span of time in a scenario file, written as 250ms or 10s.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return errors.New("lab: not a duration, such as 250ms or 10s: " + string(b))
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }
