package tuner

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// ErrSetting is wrapped by the errors for settings that cannot be moved.
var ErrSetting = errors.New("tuner: not a setting that can be moved")

// unit is how a setting is written.
type unit uint8

const (
	number    unit = iota // any number
	openRate              // a number of which 0 means without bound
	whole                 // a whole number
	openWhole             // a whole number of which 0 means without bound
	span                  // a duration; its value is in seconds
	stance                // a mode: its place in stances; never raised by a policy
)

// stances are the modes of an ingress by how much they refuse; a setting's value
// is the place of its mode.
var stances = []string{"off", "shadow", "enforce"} //nolint:gochecknoglobals // a constant table

// The least values that policies may set where 0 means something else, such as
// "without bound".
const (
	leastRate = 0.001 // per second
	leastSpan = 0.001 // seconds
)

// form is how a setting is written, and the least value that a policy may set.
type form struct {
	unit  unit
	least float64
}

// forms lists every setting that can be moved, by its key below the ingress or
// below a partition. Of each, less is more careful.
func forms(key string, partition bool) (form, bool) {
	if !partition {
		switch key {
		case "requests.rate", "connections.rate":
			return form{openRate, leastRate}, true
		case "requests.burstSeconds", "connections.burstSeconds":
			return form{number, 0.001}, true
		case "requests.queueDepth", "connections.queueDepth":
			return form{whole, 0}, true
		case "connections.maxOpen":
			return form{whole, 1}, true
		case "partitions.total":
			return form{openWhole, 1}, true
		case "mode":
			return form{stance, 0}, true
		}
		return form{}, false
	}
	switch key {
	case "rate":
		return form{openRate, leastRate}, true
	case "burstSeconds":
		return form{number, 0.001}, true
	case "limit.backoffRatio":
		return form{number, 0.5}, true
	case "limit.rttTolerance":
		return form{number, 1}, true
	case "limit.limit", "limit.initialLimit", "limit.minLimit", "limit.maxLimit", "limit.alpha", "limit.beta":
		return form{whole, 1}, true
	case "queue.depth":
		return form{whole, 0}, true
	case "limit.requestTimeout", "queue.maxWait":
		return form{span, leastSpan}, true
	}
	return form{}, false
}

// Setting names one number that can change while a gate runs.
type Setting struct {
	Ingress   string // "*" = every ingress
	Partition string // "" = of the ingress itself; "*" = default and every named one
	Key       string // such as requests.rate, or below a partition limit.maxLimit
}

// ParseSetting reads INGRESS.requests.rate, INGRESS.connections.maxOpen,
// INGRESS.partitions.total, INGRESS.partitions.NAME.limit.maxLimit and the like.
// INGRESS.mode is 2 for enforce, 1 for shadow and 0 for off. A * stands for every
// ingress or partition.
func ParseSetting(text string) (Setting, error) {
	if ingress, found := strings.CutSuffix(text, ".mode"); found && ingress != "" && !strings.Contains(text, ".partitions.") {
		return Setting{Ingress: ingress, Key: "mode"}, nil
	}
	for _, section := range []string{".requests.", ".connections.", ".partitions."} {
		ingress, rest, found := strings.Cut(text, section)
		if !found || ingress == "" {
			continue
		}
		s := Setting{Ingress: ingress, Key: strings.Trim(section, ".") + "." + rest}
		if section == ".partitions." && rest != "total" {
			s = partitionSetting(ingress, rest)
		}
		if _, ok := forms(s.Key, s.Partition != ""); ok && s.Key != "mode" {
			return s, nil
		}
	}
	return Setting{}, fmt.Errorf("%w: %q; it must be like orders.requests.rate or orders.partitions.default.limit.maxLimit", ErrSetting, text)
}

// partitionSetting parts the name of a partition, which may hold dots, from the
// key below it.
func partitionSetting(ingress, rest string) Setting {
	rest = strings.TrimPrefix(rest, "named.")
	parts := strings.Split(rest, ".")
	n := len(parts)
	if n >= 3 && (parts[n-2] == "limit" || parts[n-2] == "queue") {
		return Setting{ingress, strings.Join(parts[:n-2], "."), strings.Join(parts[n-2:], ".")}
	}
	return Setting{ingress, strings.Join(parts[:n-1], "."), parts[n-1]}
}

// String is the form that [ParseSetting] reads.
func (s Setting) String() string {
	if s.Partition == "" {
		return s.Ingress + "." + s.Key
	}
	return s.Ingress + ".partitions." + s.Partition + "." + s.Key
}

// unit of the setting, which was parsed.
func (s Setting) unit() unit {
	f, _ := forms(s.Key, s.Partition != "")
	return f.unit
}

// Least is the smallest value that a policy may set. It is above 0 where 0 means
// something else, such as "without bound".
func (s Setting) Least() float64 {
	f, _ := forms(s.Key, s.Partition != "")
	return f.least
}

// bounds are what the configuration allows of a setting, whatever a policy says.
type bounds struct {
	low, high   float64
	below, over string // the keys that bound it; "" = the setting's own least value, or nothing
}

// within reads the bounds of the setting from the settings of its ingress: the
// least and the greatest limit bound each other.
func (s Setting) within(settings map[string]any) bounds {
	b := bounds{low: s.Least(), high: math.Inf(1)}
	other := func(key string) (float64, bool) {
		o := s
		o.Key = "limit." + key
		return o.in(settings)
	}
	least := func(key string, more float64) {
		if v, ok := other(key); ok && v+more > b.low {
			b.low, b.below = v+more, key
		}
	}
	most := func(key string, less float64) {
		if v, ok := other(key); ok && v-less < b.high {
			b.high, b.over = v-less, key
		}
	}
	switch s.Key {
	case "limit.maxLimit":
		least("minLimit", 0)
	case "limit.initialLimit":
		least("minLimit", 0)
		most("maxLimit", 0)
	case "limit.minLimit":
		most("maxLimit", 0)
		most("initialLimit", 0)
	case "limit.alpha":
		most("beta", 1)
	case "limit.beta":
		least("alpha", 1)
	}
	return b
}

// vitals are the keys of [State.Measurements] that tell how the setting does, the
// nearest first.
func (s Setting) vitals() []string {
	if s.Partition == "" {
		return []string{s.Ingress}
	}
	return []string{s.Ingress + "/" + s.Partition, s.Ingress}
}

// path of the setting within the settings of its ingress, and within a patch.
func (s Setting) path() []string {
	path := strings.Split(s.Key, ".")
	switch s.Partition {
	case "":
		return path
	case "default":
		return append([]string{"partitions", "default"}, path...)
	}
	return append([]string{"partitions", "named", s.Partition}, path...)
}

// in reads the setting from the settings of its ingress. Without a bound is
// infinite.
func (s Setting) in(settings map[string]any) (float64, bool) {
	var at any = settings
	for _, key := range s.path() {
		m, ok := at.(map[string]any)
		if !ok {
			return 0, false
		}
		at = m[key]
	}
	return s.read(at)
}

func (s Setting) read(v any) (float64, bool) {
	u := s.unit()
	if text, ok := v.(string); ok && u == span {
		d, err := time.ParseDuration(text)
		return d.Seconds(), err == nil
	}
	if text, ok := v.(string); ok && u == stance {
		i := slices.Index(stances, text)
		return float64(i), i >= 0
	}
	f, ok := v.(float64)
	if (u == openRate || u == openWhole) && f == 0 {
		f = math.Inf(1)
	}
	return f, ok
}

// round returns v as it can be written, going towards was where it has to
// choose, and at least one whole away from it.
func (s Setting) round(v, was float64) float64 {
	switch s.unit() {
	case whole, openWhole, stance:
		switch {
		case math.IsInf(v, 0):
			return v
		case v > was:
			return max(math.Floor(v), was+1)
		case v < was:
			return min(math.Ceil(v), max(was-1, 0))
		}
		return v
	case span:
		return time.Duration(v * float64(time.Second)).Round(time.Millisecond).Seconds()
	default:
	}
	if v == 0 || math.IsInf(v, 0) {
		return v
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}

// companion is the setting that must not be above this one, and follows it
// down; false when there is none.
func (s Setting) companion() (Setting, bool) {
	if s.Key != "limit.maxLimit" {
		return Setting{}, false
	}
	s.Key = "limit.initialLimit"
	return s, true
}

// patch is the document that sets the value. follower is what the companion is
// in the configuration; 0 = there is none.
func (s Setting) patch(v, follower float64) ([]byte, error) {
	var value any = v
	switch u := s.unit(); {
	case math.IsInf(v, 1):
		value = 0
	case u == whole || u == openWhole:
		value = int64(v)
	case u == stance:
		value = stances[min(max(int(v), 0), len(stances)-1)]
	case u == span:
		value = time.Duration(v * float64(time.Second)).Round(time.Microsecond).String()
	}
	path := s.path()
	if c, ok := s.companion(); ok && follower > 0 {
		_, key, _ := strings.Cut(c.Key, ".")
		last := len(path) - 1
		value = map[string]any{path[last]: value, key: int64(min(follower, v))}
		path = path[:last]
	}
	for _, key := range slices.Backward(path) {
		value = map[string]any{key: value}
	}
	b, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("tuner: patch of %s: %w", s, err)
	}
	return b, nil
}

// expand lists the settings that s stands for in the state, in a steady order:
// ingresses and partitions by name, the default partition first.
func (s Setting) expand(st *State) []Setting {
	var out []Setting
	for _, ingress := range sortedKeys(st.Settings) {
		if s.Ingress != "*" && s.Ingress != ingress {
			continue
		}
		one := s
		one.Ingress = ingress
		for _, partition := range one.partitions(st.Settings[ingress]) {
			one.Partition = partition
			if _, ok := one.in(st.Settings[ingress]); ok {
				out = append(out, one)
			}
		}
	}
	return out
}

func (s Setting) partitions(settings map[string]any) []string {
	if s.Partition != "*" {
		return []string{s.Partition}
	}
	names := []string{"default"}
	if parts, ok := settings["partitions"].(map[string]any); ok {
		named, _ := parts["named"].(map[string]any)
		names = append(names, sortedKeys(named)...)
	}
	return names
}
