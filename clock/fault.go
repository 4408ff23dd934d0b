package clock

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// maxFaults bounds a specification, since each costs every reading a little.
const maxFaults = 16

// Fault bends the readings of a clock at given times. The nil Fault bends
// nothing. It has no state, so that a rehearsal can be repeated, and is safe
// for concurrent use.
type Fault struct {
	parts []bend
}

// bend is one fault over one span.
type bend struct {
	kind     string
	amount   time.Duration
	from, to time.Duration // since the clock's start; to is 0 for ever
}

// The kinds of fault.
const (
	frozen    = "frozen"
	backwards = "backwards"
	jump      = "jump"
	coarse    = "coarse"
)

// ParseFault reads a specification:
//
//	spec   = fault { "," fault }
//	fault  = kind [ "=" amount ] "@" start [ "+" length ]
//	kind   = "frozen" | "backwards" | "jump" | "coarse"
//
// Amount, start and length are durations such as 50ms. Start counts from the
// start of the process; without a length the fault stays.
//
//	frozen@10s+20s          every reading is the one at 10 s, for 20 s
//	backwards=50ms@10s+5s   time runs backwards 50 ms at a time, for 5 s
//	jump=1h@10s             from 10 s on readings are an hour ahead
//	jump=-1h@10s+5s         readings are an hour behind, for 5 s
//	coarse=10ms@10s+1m      readings move in steps of 10 ms, for a minute
//
// The empty specification is nil: no fault.
func ParseFault(spec string) (*Fault, error) {
	if strings.TrimSpace(spec) == "" {
		return nil, nil //nolint:nilnil // nil is the fault that bends nothing, as documented
	}
	var f Fault
	for text := range strings.SplitSeq(spec, ",") {
		b, err := parseBend(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("clock: fault %q: %w", text, err)
		}
		f.parts = append(f.parts, b)
		if len(f.parts) > maxFaults {
			return nil, fmt.Errorf("clock: more than %d faults", maxFaults)
		}
	}
	return &f, nil
}

// parseBend reads one fault.
func parseBend(text string) (bend, error) {
	what, when, ok := strings.Cut(text, "@")
	if !ok {
		return bend{}, errors.New("want kind[=amount]@start[+length]")
	}
	kind, amount, hasAmount := strings.Cut(what, "=")
	if !slices.Contains([]string{frozen, backwards, jump, coarse}, kind) {
		return bend{}, fmt.Errorf("unknown kind %q: want frozen, backwards, jump or coarse", kind)
	}
	if hasAmount == (kind == frozen) {
		return bend{}, errors.New("backwards, jump and coarse need an amount, frozen has none")
	}
	b := bend{kind: kind}
	var err error
	if hasAmount {
		if b.amount, err = parseSpan(amount, kind == jump); err != nil {
			return bend{}, err
		}
		if b.amount == 0 {
			return bend{}, errors.New("the amount must not be 0")
		}
	}
	start, length, hasLength := strings.Cut(when, "+")
	if b.from, err = parseSpan(start, false); err != nil {
		return bend{}, err
	}
	if !hasLength {
		return b, nil
	}
	span, err := parseSpan(length, false)
	if err != nil {
		return bend{}, err
	}
	if span == 0 {
		return bend{}, errors.New("the length must not be 0")
	}
	b.to = b.from + span
	return b, nil
}

// parseSpan reads a duration of at most ten years either way, so that sums
// stay far from overflow.
func parseSpan(text string, negative bool) (time.Duration, error) {
	const most = 10 * 365 * 24 * time.Hour
	d, err := time.ParseDuration(text)
	switch {
	case err != nil:
		return 0, err
	case d > most || d < -most || (d < 0 && !negative):
		return 0, fmt.Errorf("%v is out of range", d)
	default:
		return d, nil
	}
}

// String returns the specification that parses to f.
func (f *Fault) String() string {
	if f == nil {
		return ""
	}
	texts := make([]string, len(f.parts))
	for i, b := range f.parts {
		texts[i] = b.String()
	}
	return strings.Join(texts, ",")
}

func (b bend) String() string {
	text := b.kind
	if b.kind != frozen {
		text += "=" + b.amount.String()
	}
	text += "@" + b.from.String()
	if b.to > 0 {
		text += "+" + (b.to - b.from).String()
	}
	return text
}

// bend returns the reading that stands in for now, both since the clock's
// start. Faults that overlap apply one after the other.
func (f *Fault) bend(now int64) int64 {
	if f == nil {
		return now
	}
	reading := now
	for i := range f.parts {
		b := &f.parts[i]
		if now < int64(b.from) || (b.to > 0 && now >= int64(b.to)) {
			continue
		}
		switch b.kind {
		case frozen:
			reading = int64(b.from)
		case backwards:
			reading -= 2 * ((now - int64(b.from)) % int64(b.amount))
		case jump:
			reading += int64(b.amount)
		case coarse:
			reading -= reading % int64(b.amount)
		}
	}
	return reading
}
