package fleet

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/status"
)

// ratesScript keeps which rates are in force.
//
//go:embed rates.lua
var ratesScript string

// Setting is a rate as this gate's configuration has it.
type Setting struct {
	// Name is the quota that has the rate; one that ends in "/~" is of every quota
	// below it that has no override.
	Name string
	// Override says that the rate is of one quota, over what else is configured.
	Override  bool
	PerSecond float64       // tokens per second, > 0
	Burst     float64       // tokens, >= 1
	For       time.Duration // until an override ends, from now; 0 = never
}

// record is a rate as the group has it.
type record struct {
	version   int64
	perSecond float64
	burst     float64
	file      string // the rate that a file said last, "perSecond/burst"; "-" = none did
	ends      int64  // monotonic ns; 0 = never
	by        string // the gate that told it
	source    string // sourceFile, sourceRuntime or sourceGone
}

// The sources of a record.
const (
	sourceFile    = "file"
	sourceRuntime = "runtime"
	sourceGone    = "gone" // an override that was taken back
)

// Words of a change; see rates.lua.
const (
	howStart   = "start"
	howFile    = "file"
	howRuntime = "runtime"
	howGone    = "gone"
	howRestore = "restore"
	howDrop    = "drop"
)

// over reports whether an override holds no more.
func (r *record) over(now int64) bool {
	return r.source == sourceGone || r.ends != 0 && now >= r.ends
}

// own is a setting as this gate is told, and what of it the group has not taken.
type own struct {
	Setting

	ends int64  // monotonic ns; 0 = never
	how  string // what the group has to be told; "" = it has taken it
	told uint64 // counts up with every change
}

// rates are the rates in force in the group as this gate knows them, and those of
// its own configuration. It is not safe for concurrent use.
type rates struct {
	name    string // of the gate
	own     map[string]*own
	records map[string]record
	version int64
	born    string // changes when the group has lost its rates
	digest  string // of the settings that the gate started with; "" = the group has them

	heardVersion int64 // of the last call; a sync is due when it is another one
	heardBorn    string
	behind       bool  // the group has to be told what it lost
	nextEnd      int64 // of an override; 0 = none ends
	synced       int64 // when a sync was sent last that was answered; 0 = never
	counter      uint64
}

// Times of the rates of a group.
const (
	resync      = time.Minute      // between two syncs, so that the group keeps its rates
	ratesKept   = 10 * time.Minute // how long the group keeps them without any gate
	endsDropped = 10 * time.Minute // after which an override that is over is dropped
)

// settingField is where the rate of a quota stands, overrideField that of an
// override.
func settingField(name string) string {
	if i := strings.Index(name, "/~"); i >= 0 {
		name = name[:i+2]
	}
	return "s:" + keyOf(name)
}

func overrideField(name string) string { return "o:" + keyOf(name) }

// tell takes the settings of this gate's configuration. file says that they were
// read from a file, and not changed at run time.
func (r *rates) tell(now int64, settings []Setting, file bool) {
	started := r.own != nil
	next := make(map[string]*own, len(settings))
	for _, s := range settings {
		field := settingField(s.Name)
		if s.Override {
			field = overrideField(s.Name)
		}
		o := &own{Setting: s}
		if s.For > 0 {
			o.ends = now + int64(s.For)
		}
		old := r.own[field]
		switch {
		case old != nil && old.same(o):
			next[field] = old
			continue
		case s.Override:
			o.how = howRuntime
		case !started || old != nil && old.how == howStart && file:
			o.how = howStart
		case file:
			o.how = howFile
		default:
			o.how = howRuntime
		}
		r.counter++
		o.told = r.counter
		next[field] = o
	}
	for field, old := range r.own {
		if next[field] == nil && old.Override && (old.ends == 0 || now < old.ends) {
			r.counter++
			next[field] = &own{Setting: old.Setting, how: howGone, told: r.counter}
		}
	}
	if !started {
		r.digest = digestOf(next)
	}
	r.own = next
}

// same reports whether two settings say the same.
func (o *own) same(p *own) bool {
	return o.PerSecond == p.PerSecond && o.Burst == p.Burst && o.how != howGone && (o.ends == 0) == (p.ends == 0) &&
		math.Abs(float64(o.ends-p.ends)) < float64(time.Second)
}

// digestOf returns what tells one configuration's rates from another's.
func digestOf(settings map[string]*own) string {
	h := sha256.New()
	for _, field := range slices.Sorted(maps.Keys(settings)) {
		if o := settings[field]; !o.Override {
			fmt.Fprintf(h, "%s %s %s\n", field, number(o.PerSecond), number(o.Burst))
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8])
}

// pending returns the names of what the group has not taken; an override is named
// by what it is over, since a client's key may be a secret.
func (r *rates) pending() []string {
	var names []string
	for _, o := range r.own {
		switch {
		case o.how == "":
		case o.Override:
			name, _, _ := strings.Cut(o.Name, "/~")
			names = append(names, "an override of "+name)
		default:
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// due reports whether the group is to be asked for its rates, or told.
func (r *rates) due(now int64) bool {
	if r.own == nil && len(r.records) == 0 && r.heardVersion == 0 {
		return false // nobody uses them
	}
	if r.synced == 0 || r.behind || r.heardVersion != r.version || r.heardBorn != r.born || time.Duration(now-r.synced) > resync {
		return true
	}
	for _, o := range r.own {
		if o.how != "" {
			return true
		}
	}
	return false
}

// rateCall is one run of the script.
type rateCall struct {
	args   []any
	told   map[string]uint64 // what it carries, by field
	digest bool
	full   bool // it tells all that the gate knows
}

// prepare words a sync.
func (r *rates) prepare(now int64) rateCall {
	s := rateCall{told: map[string]uint64{}, digest: r.digest != "", full: r.behind}
	knows, born := r.version, r.born
	if s.full {
		knows, born = 0, ""
	}
	s.args = []any{r.name, strconv.FormatInt(knows, 10), born, r.digest, strconv.FormatInt(ratesKept.Milliseconds(), 10)}
	add := func(field, how string, perSecond, burst float64, ends, version int64, file, by, source string) {
		left := int64(0)
		if ends != 0 {
			left = max((ends-now)/1e6, 1)
		}
		s.args = append(s.args, field, how, number(perSecond), number(burst), strconv.FormatInt(left, 10), strconv.FormatInt(version, 10), file, by, source)
	}
	for _, field := range slices.Sorted(maps.Keys(r.records)) {
		rec := r.records[field]
		switch {
		case s.full:
			add(field, howRestore, rec.perSecond, rec.burst, rec.ends, rec.version, rec.file, rec.by, rec.source)
		case rec.ends != 0 && now-rec.ends > int64(endsDropped):
			add(field, howDrop, rec.perSecond, rec.burst, 0, rec.version, "-", "-", "-")
		}
	}
	for _, field := range slices.Sorted(maps.Keys(r.own)) {
		o := r.own[field]
		if o.how == "" || o.how != howGone && o.ends != 0 && now >= o.ends {
			continue
		}
		s.told[field] = o.told
		add(field, o.how, o.PerSecond, o.Burst, o.ends, 0, "-", "-", "-")
	}
	return s
}

// landed takes what a sync answered that was sent at sent, and reports whether a
// rate changed.
func (r *rates) landed(now, sent int64, s *rateCall, reply []string) (changed bool, err error) {
	bad := func() (bool, error) { return false, fmt.Errorf("%w: rates %.100q", errReply, reply) }
	if len(reply) < 3 {
		return bad()
	}
	clock, cerr := strconv.ParseInt(reply[0], 10, 62)
	version, verr := strconv.ParseInt(reply[1], 10, 62)
	born := reply[2]
	if cerr != nil || verr != nil || born == "" {
		return bad()
	}
	if len(reply) == 4 && reply[3] == "behind" {
		if s.full {
			return bad()
		}
		r.behind = true
		return false, nil
	}
	if len(reply)%2 != 1 {
		return bad()
	}
	fresh := map[string]record{}
	for i := 3; i < len(reply); i += 2 {
		rec, ok := parseRecord(reply[i+1], now, clock)
		if !ok {
			continue // one that cannot be read is not in force; the others are
		}
		fresh[reply[i]] = rec
	}
	if s.full {
		r.records = nil
	}
	if r.records == nil {
		r.records = map[string]record{}
	}
	for field, rec := range fresh {
		if r.records[field].version != rec.version {
			changed = true
		}
		r.records[field] = rec
	}
	maps.DeleteFunc(r.records, func(_ string, rec record) bool { return rec.ends != 0 && now-rec.ends > int64(endsDropped) })
	r.seekEnd(now)
	for field, told := range s.told {
		o := r.own[field]
		if o == nil || o.told != told {
			continue // changed meanwhile
		}
		if o.how == howGone {
			delete(r.own, field)
		} else {
			o.how = ""
		}
	}
	if s.digest {
		r.digest = ""
	}
	r.version, r.born, r.heardVersion, r.heardBorn, r.behind, r.synced = version, born, version, born, false, max(sent, 1)
	return changed || s.full, nil
}

// parseRecord reads a record. clock is that of Redis at now, microseconds.
func parseRecord(text string, now, clock int64) (r record, ok bool) {
	words := strings.Fields(text)
	if len(words) < 7 {
		return r, false
	}
	version, verr := strconv.ParseInt(words[0], 10, 53)
	perSecond, rerr := strconv.ParseFloat(words[1], 64)
	burst, berr := strconv.ParseFloat(words[2], 64)
	ends, eerr := strconv.ParseInt(words[4], 10, 53)
	if err := errors.Join(verr, rerr, berr, eerr); err != nil || !(perSecond > 0 && perSecond < 1e18) || !(burst > 0 && burst < 1e18) || version < 1 {
		return r, false
	}
	r = record{version: version, perSecond: perSecond, burst: burst, file: words[3], by: words[5], source: words[6]}
	if ends != 0 {
		left := min(max(ends-clock, -int64(ratesKept/time.Microsecond)), int64(maxOverride/time.Microsecond))
		r.ends = max(now+left*1000, 1)
	}
	return r, true
}

// maxOverride bounds how long an override of another gate is believed to hold.
const maxOverride = 10 * 365 * 24 * time.Hour

// inForce returns the rate of a quota, and its version; version 0 = the group has
// not said. The version rises with everything that changes the rate: an override
// that is over counts half of a version, so that the rate under it is newer.
func (r *rates) inForce(now int64, setting, override string) (perSecond, burst, version float64) {
	base := r.records[setting]
	perSecond, burst, version = base.perSecond, base.burst, float64(base.version)
	o, overridden := r.records[override]
	if !overridden || base.version == 0 {
		return perSecond, burst, version
	}
	version = math.Max(version, float64(o.version))
	if o.over(now) {
		return perSecond, burst, version + 0.5
	}
	return o.perSecond, o.burst, version
}

// ended reports whether an override has ended since it was asked last.
func (r *rates) ended(now int64) bool {
	if r.nextEnd == 0 || now < r.nextEnd {
		return false
	}
	r.seekEnd(now)
	return true
}

// seekEnd finds the override that ends next.
func (r *rates) seekEnd(now int64) {
	r.nextEnd = 0
	for _, rec := range r.records {
		if rec.ends > now && (r.nextEnd == 0 || rec.ends < r.nextEnd) {
			r.nextEnd = rec.ends
		}
	}
}

// differs lists the settings of this gate's configuration that are not in force,
// in the order of their names.
func (r *rates) differs(now int64) []status.FleetRate {
	var list []status.FleetRate
	for field, o := range r.own {
		rec, known := r.records[field]
		if !known || o.how != "" || rec.perSecond == o.PerSecond && rec.burst == o.Burst && !rec.over(now) || o.Override && (rec.over(now) || o.ends != 0 && now >= o.ends) {
			continue
		}
		row := status.FleetRate{
			Name: o.Name, Override: o.Override, PerSecond: rec.perSecond, Burst: rec.burst, OwnPerSecond: o.PerSecond, OwnBurst: o.Burst, By: rec.by, Source: rec.source,
			Version: rec.version,
		}
		list = append(list, row)
	}
	slices.SortFunc(list, func(a, b status.FleetRate) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// Tell tells the group what this gate's configuration says: all of it, every time
// that it changes. file says that it was read from a file. Without a call of Tell
// the rates of the buckets hold, and the first gate's win.
func (g *Group) Tell(settings []Setting, file bool) {
	g.mu.Lock()
	g.book.rates.tell(g.o.Now(), settings, file)
	g.mu.Unlock()
	g.Look()
}

// Taken waits until the group has taken what it was told, and returns why it has
// not when it does not answer or ctx ends. It is told again until it has.
func (g *Group) Taken(ctx context.Context) error {
	for failed := 0; ; {
		g.mu.Lock()
		names, failure, landed := g.book.rates.pending(), g.failure, g.landed
		g.mu.Unlock()
		switch {
		case len(names) == 0:
			return nil
		case failure != "":
			failed++ // one call may be late
		default:
			failed = 0
		}
		if failed > 1 {
			return fmt.Errorf("%w: %s: %s", errNotTaken, strings.Join(names, ", "), failure)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %s: %w", errNotTaken, strings.Join(names, ", "), ctx.Err())
		case <-landed:
		}
	}
}

// errNotTaken is wrapped by what [Group.Taken] returns.
var errNotTaken = errors.New("fleet: the group has not taken the rate of")
