package observe

import (
	"fmt"
	"io"
	"log/slog"
)

// LogOptions are how logs are written. The zero value writes JSON at info.
type LogOptions struct {
	// Format is json or text; "" = json.
	Format string
	// Level is debug, info, warn or error; "" = info.
	Level string
}

// NewLogger returns a logger that writes to w, one line per record and durations
// as in the configuration (1.5s, in both formats), and the level through which it can be turned up or down while it runs. The error
// names the option that is wrong.
func NewLogger(w io.Writer, o LogOptions) (*slog.Logger, *slog.LevelVar, error) {
	level := new(slog.LevelVar)
	if o.Level != "" {
		if err := level.UnmarshalText([]byte(o.Level)); err != nil {
			return nil, nil, fmt.Errorf("observe: log level %q: want debug, info, warn or error", o.Level)
		}
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: worded}
	switch o.Format {
	case "", "json":
		return slog.New(slog.NewJSONHandler(w, opts)), level, nil
	case "text":
		return slog.New(slog.NewTextHandler(w, opts)), level, nil
	default:
		return nil, nil, fmt.Errorf("observe: log format %q: want json or text", o.Format)
	}
}

// worded writes a duration as a text: JSON would have it as a bare number of
// nanoseconds, which nobody reads.
func worded(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
