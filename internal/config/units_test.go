package config_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/config"
)

func TestDurationSpelling(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "0s": 0, "250ms": 250 * time.Millisecond, "1m30s": 90 * time.Second, "1m": time.Minute, "2h": 2 * time.Hour,
	} {
		var d config.Duration
		if err := d.UnmarshalText([]byte(text)); err != nil || time.Duration(d) != want {
			t.Errorf("UnmarshalText(%q) = %v, %v; want %v", text, time.Duration(d), err, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", time.Minute: "1m", 24 * time.Hour: "24h", 90 * time.Minute: "1h30m", 61 * time.Second: "1m1s"} {
		if got := config.Duration(d).String(); got != want {
			t.Errorf("String() = %q; want %q", got, want)
		}
	}
}

func TestSizeSpelling(t *testing.T) {
	for text, want := range map[string]config.Size{
		"0": 0, "1": 1, "64KiB": 65536, "16MiB": 16 << 20, "1.5GiB": 3 << 29, "10MB": 1e7, "2 TiB": 2 << 40, "7B": 7, "1e3": 1000,
	} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err != nil || s != want {
			t.Errorf("UnmarshalText(%q) = %d, %v; want %d", text, s, err, want)
		}
	}
	for _, text := range []string{"", "KiB", "1kib", "-1", "1Ki", "1 2", "0.5", "9e99", "NaN", "1MiBMiB", "Inf", "1e19B"} {
		var s config.Size
		if err := s.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("UnmarshalText(%q) = %d; want an error", text, s)
		}
	}
}

// What is written reads back as the same value.
func TestUnitsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := config.Size(rapid.Int64Range(0, 1<<50).Draw(t, "size"))
		var s config.Size
		if err := s.UnmarshalText([]byte(size.String())); err != nil || s != size {
			t.Fatalf("size %d reads back as %d, %v", size, s, err)
		}
		duration := config.Duration(rapid.Int64().Draw(t, "duration"))
		var d config.Duration
		if err := d.UnmarshalText([]byte(duration.String())); err != nil || d != duration {
			t.Fatalf("duration %d reads back as %d, %v", duration, d, err)
		}
	})
}

// A secret does not slip out through any verb.
func TestSecretIsNeverPrinted(t *testing.T) {
	s := config.Secret("geheim")
	for _, verb := range []string{"%v", "%s", "%q", "%+v", "%#v", "%x"} {
		if got := fmt.Sprintf(verb, s); got == "geheim" || got == fmt.Sprintf(verb, "geheim") {
			t.Errorf("%s prints %s", verb, got)
		}
	}
}
