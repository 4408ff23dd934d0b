package strict

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Duration is a span of time, written as 250ms, 10s, 1m30s. A bare 0 is zero;
// any other number needs its unit.
type Duration time.Duration

// UnmarshalText implements [encoding.TextUnmarshaler].
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		if _, number := strconv.ParseFloat(string(b), 64); number == nil {
			return errors.New("needs a unit, such as 250ms or 10s")
		}
		return errors.New("is not a duration, such as 250ms or 10s")
	}
	*d = Duration(v)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns d as the configuration spells it, without zero units: 1m, not
// 1m0s.
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Size is a number of bytes, written as 65536, 64KiB, 16MiB, 1GiB or 10MB.
type Size int64

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Size) UnmarshalText(b []byte) error {
	text := strings.TrimSpace(string(b))
	digits := strings.TrimRight(text, "KMGTiB ")
	unit := int64(0)
	switch strings.TrimSpace(text[len(digits):]) {
	case "", "B":
		unit = 1
	case "KiB":
		unit = 1 << 10
	case "MiB":
		unit = 1 << 20
	case "GiB":
		unit = 1 << 30
	case "TiB":
		unit = 1 << 40
	case "KB":
		unit = 1e3
	case "MB":
		unit = 1e6
	case "GB":
		unit = 1e9
	case "TB":
		unit = 1e12
	}
	n, err := strconv.ParseFloat(digits, 64)
	bytes := n * float64(unit)
	switch {
	case err != nil, unit == 0, n < 0, math.IsNaN(n):
		return errors.New("is not a size, such as 64KiB or 16MiB")
	case bytes > 1<<62:
		return errors.New("is too large for a size")
	case bytes != math.Trunc(bytes):
		return errors.New("is not a whole number of bytes")
	}
	*s = Size(bytes)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns s in the largest binary unit that divides it.
func (s Size) String() string {
	units := []string{"TiB", "GiB", "MiB", "KiB"}
	for i, u := range units {
		if n := int64(1) << (10 * (len(units) - i)); s != 0 && int64(s)%n == 0 {
			return strconv.FormatInt(int64(s)/n, 10) + u
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// Status is the HTTP status of a refusal; 0 is auto.
type Status int

// UnmarshalText implements [encoding.TextUnmarshaler]. The closed set stands
// in the tag of the field.
func (s *Status) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*s = 0
		return nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return errors.New("is not a status")
	}
	*s = Status(n)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (s Status) MarshalText() ([]byte, error) {
	if s == 0 {
		return []byte("auto"), nil
	}
	return []byte(strconv.Itoa(int(s))), nil
}

// Count is a whole number, or the word auto, which is [Auto].
type Count int

// Auto is the [Count] that nobody says.
const Auto Count = -1

// UnmarshalText implements [encoding.TextUnmarshaler]. The bounds stand in the
// tags of the field.
func (c *Count) UnmarshalText(b []byte) error {
	if string(b) == "auto" {
		*c = Auto
		return nil
	}
	n, err := strconv.Atoi(string(b))
	if err != nil {
		return errors.New("must be a whole number or auto")
	}
	*c = Count(n)
	return nil
}

// MarshalText implements [encoding.TextMarshaler].
func (c Count) MarshalText() ([]byte, error) {
	if c == Auto {
		return []byte("auto"), nil
	}
	return []byte(strconv.Itoa(int(c))), nil
}

// Prefix is a range of addresses, written as a CIDR or as one address.
type Prefix struct{ netip.Prefix }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (p *Prefix) UnmarshalText(b []byte) error {
	if a, err := netip.ParseAddr(string(b)); err == nil {
		if a.Zone() != "" {
			return errors.New("has a zone, which a range cannot have")
		}
		p.Prefix = netip.PrefixFrom(a, a.BitLen())
		return nil
	}
	v, err := netip.ParsePrefix(string(b))
	if err != nil {
		return errors.New("is not a CIDR or an address, such as 10.0.0.0/8")
	}
	if v != v.Masked() {
		return fmt.Errorf("has bits beyond its mask; %s is meant?", v.Masked())
	}
	p.Prefix = v
	return nil
}

// Secret is a string that is never shown: whatever prints it prints REDACTED.
type Secret string

// Redacted is what is shown in place of a [Secret].
const Redacted = "REDACTED"

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns REDACTED.
func (Secret) String() string { return Redacted }

// GoString returns REDACTED.
func (Secret) GoString() string { return Redacted }

// MarshalText implements [encoding.TextMarshaler] with REDACTED.
func (Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}

// The types above are read and written as text.
var (
	_ encoding.TextUnmarshaler = (*Duration)(nil)
	_ encoding.TextUnmarshaler = (*Size)(nil)
	_ encoding.TextUnmarshaler = (*Status)(nil)
	_ encoding.TextUnmarshaler = (*Count)(nil)
	_ encoding.TextUnmarshaler = (*Prefix)(nil)
	_ encoding.TextUnmarshaler = (*Secret)(nil)
)

// Overlay holds some keys of a section of the configuration, which are laid over
// it as a patch at run time is.
type Overlay map[string]any
