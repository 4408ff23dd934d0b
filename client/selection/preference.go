package selection

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Bounds of a max staleness. A secondary can look this stale without being so:
// an idle primary writes every idleWritePeriod only, and servers are asked
// every heartbeat only.
const (
	SmallestMaxStaleness = 90 * time.Second
	IdleWritePeriod      = 10 * time.Second
)

// ErrPreference is matched by every error about a read preference that can
// never be satisfied, whatever the servers do.
var ErrPreference = errors.New("selection: invalid read preference")

// Mode says which members of a set may serve a read. The zero value is
// [Primary].
type Mode uint8

// The modes.
const (
	Primary            Mode = iota // the primary only
	PrimaryPreferred               // the primary, or an eligible secondary while there is none
	Secondary                      // eligible secondaries only
	SecondaryPreferred             // eligible secondaries, or the primary while there are none
	Nearest                        // any eligible member
)

// modes returns the names in the order of the constants.
func modes() [5]string {
	return [...]string{"primary", "primaryPreferred", "secondary", "secondaryPreferred", "nearest"}
}

// String returns the name of m in camel case, as it goes over the wire.
func (m Mode) String() string {
	if names := modes(); int(m) < len(names) {
		return names[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the inverse of [Mode.String]. Case does not matter; the empty
// string is [Primary], the default.
func ParseMode(s string) (Mode, error) {
	if s == "" {
		return Primary, nil
	}
	for i, name := range modes() {
		if strings.EqualFold(name, s) {
			return Mode(i), nil
		}
	}
	return Primary, fmt.Errorf("%w: no such mode: %q", ErrPreference, s)
}

// TagSet is a set of key-value pairs. It matches every server that has all of
// them; the empty set matches every server.
type TagSet map[string]string

// String returns the pairs sorted by key, as in {dc: ny, rack: 2}.
func (ts TagSet) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, k := range slices.Sorted(maps.Keys(ts)) {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(k + ": " + ts[k])
	}
	b.WriteByte('}')
	return b.String()
}

// ReadPreference says which servers may serve a read. The zero value is the
// default: the primary, any tags, any staleness. It matters in sets only;
// routers and single servers serve every read.
type ReadPreference struct {
	Mode Mode
	// TagSets are tried in order; the first that matches an otherwise eligible
	// server decides. Empty = any server. Must be empty sets with [Primary].
	TagSets []TagSet
	// MaxStaleness is how far behind the primary a secondary may be. nil or
	// negative = any; else at least [SmallestMaxStaleness] and at least the
	// heartbeat plus [IdleWritePeriod], which is checked in sets. Must be
	// absent with [Primary].
	MaxStaleness *time.Duration
}

// maxStaleness returns the bound, and false when there is none. Zero is a
// bound: one that no server can keep and that validation refuses.
func (p *ReadPreference) maxStaleness() (time.Duration, bool) {
	if p.MaxStaleness == nil || *p.MaxStaleness < 0 {
		return 0, false
	}
	return *p.MaxStaleness, true
}

// Validate reports what is wrong with the preference whatever the topology. It
// matches [ErrPreference].
func (p *ReadPreference) Validate() error {
	if p.Mode > Nearest {
		return fmt.Errorf("%w: no such mode: %d", ErrPreference, p.Mode)
	}
	if p.Mode != Primary {
		return nil
	}
	for _, ts := range p.TagSets {
		if len(ts) > 0 {
			return fmt.Errorf("%w: mode primary takes no tag sets, got %s", ErrPreference, ts)
		}
	}
	if d, ok := p.maxStaleness(); ok && d > 0 {
		return fmt.Errorf("%w: mode primary takes no max staleness, got %s", ErrPreference, d)
	}
	return nil
}

// validateInSet reports whether the bound on staleness can be measured at all
// when servers are asked every heartbeat.
func (p *ReadPreference) validateInSet(heartbeat time.Duration) error {
	d, ok := p.maxStaleness()
	if !ok {
		return nil
	}
	if least := max(SmallestMaxStaleness, heartbeat+IdleWritePeriod); d < least {
		return fmt.Errorf("%w: max staleness %s, at least %s with a heartbeat of %s", ErrPreference, d, least, heartbeat)
	}
	return nil
}

// String returns every component that is set, as in
// "nearest, tag sets [{dc: ny}], max staleness 2m0s".
func (p *ReadPreference) String() string {
	var b strings.Builder
	b.WriteString(p.Mode.String())
	if len(p.TagSets) > 0 {
		b.WriteString(", tag sets [")
		for i, ts := range p.TagSets {
			if i > 0 {
				b.WriteString(", ")
			}
			b.WriteString(ts.String())
		}
		b.WriteByte(']')
	}
	if d, ok := p.maxStaleness(); ok {
		b.WriteString(", max staleness " + d.String())
	}
	return b.String()
}
