package selection_test

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/client/selection"
)

// drawTopology returns a set with members in every state.
func drawTopology(t *rapid.T) *selection.Topology {
	types := []selection.ServerType{
		selection.RSPrimary, selection.RSSecondary, selection.RSSecondary, selection.RSArbiter, selection.RSOther,
		selection.RSGhost, selection.Unknown, selection.PossiblePrimary,
	}
	top := &selection.Topology{Type: selection.ReplicaSetNoPrimary}
	for i := range rapid.IntRange(0, 8).Draw(t, "servers") {
		kind := rapid.SampledFrom(types).Draw(t, "type")
		if kind == selection.RSPrimary {
			if top.Type == selection.ReplicaSetWithPrimary {
				kind = selection.RSSecondary
			}
			top.Type = selection.ReplicaSetWithPrimary
		}
		s := &selection.Server{Address: strconv.Itoa(i), Type: kind, LastUpdate: time.UnixMilli(1e6)}
		s.Tags = map[string]string{"dc": rapid.SampledFrom([]string{"ny", "sf"}).Draw(t, "dc")}
		if rapid.Bool().Draw(t, "tells") {
			s.LastWrite = time.UnixMilli(rapid.Int64Range(1, 1e6).Draw(t, "last write"))
		}
		if kind.Available() {
			s.RTT = s.RTT.Add(time.Duration(rapid.Int64Range(0, int64(100*time.Millisecond)).Draw(t, "rtt")))
		}
		top.Servers = append(top.Servers, s)
	}
	return top
}

func drawOperation(t *rapid.T) selection.Operation {
	op := selection.Operation{Write: rapid.IntRange(0, 4).Draw(t, "write") == 0}
	op.Preference.Mode = selection.Mode(rapid.IntRange(0, 4).Draw(t, "mode"))
	if op.Preference.Mode != selection.Primary {
		op.Preference.TagSets = rapid.SliceOfN(rapid.SampledFrom([]selection.TagSet{{}, {"dc": "ny"}, {"dc": "sf"}, {"dc": "la"}}), 0, 3).Draw(t, "tags")
		if rapid.Bool().Draw(t, "bounded") {
			op.Preference.MaxStaleness = new(time.Duration(rapid.IntRange(90, 900).Draw(t, "seconds")) * time.Second)
		}
	}
	op.Deprioritized = rapid.SliceOfN(rapid.StringMatching(`[0-7]`), 0, 8).Draw(t, "avoid")
	return op
}

// What holds for every topology and operation: only members in working order
// are suitable, each once; avoided ones only when no other is; and what the
// preferred half of a mode finds is what its strict twin finds.
func TestSuitableProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top, op := drawTopology(t), drawOperation(t)
		got, err := top.Suitable(&op)
		if err != nil {
			t.Fatalf("a valid preference: %v", err)
		}
		avoided := 0
		for i, s := range got {
			if s.Type != selection.RSPrimary && s.Type != selection.RSSecondary || slices.Contains(got[:i], s) {
				t.Fatalf("suitable: %v, twice or at all", s)
			}
			if op.Write && s.Type != selection.RSPrimary {
				t.Fatalf("write to %v", s)
			}
			if slices.Contains(op.Deprioritized, s.Address) {
				avoided++
			}
		}
		free := op
		free.Deprioritized = nil
		all, _ := top.Suitable(&free)
		if (len(all) == 0) != (len(got) == 0) {
			t.Fatalf("avoiding %v leaves %v of %v: it may never cost the last server", op.Deprioritized, addresses(got), addresses(all))
		}
		if avoided > 0 && !slices.Equal(got, all) {
			t.Fatalf("avoided servers in %v although others suit", addresses(got))
		}
		if strict, ok := map[selection.Mode]selection.Mode{
			selection.SecondaryPreferred: selection.Secondary, selection.PrimaryPreferred: selection.Primary,
		}[op.Preference.Mode]; ok && !op.Write {
			twin := free
			twin.Preference.Mode = strict
			if strict == selection.Primary {
				twin.Preference = selection.ReadPreference{}
			}
			if first, _ := top.Suitable(&twin); len(first) > 0 && !slices.Equal(first, all) {
				t.Fatalf("%s finds %v, %s finds %v", strict, addresses(first), op.Preference.Mode, addresses(all))
			}
		}
	})
}

// A secondary that tells no last write promises nothing, not even when none
// does; a primary that tells none is no reference.
func TestStalenessUnknown(t *testing.T) {
	at := time.UnixMilli(1e9)
	p := selection.Server{Address: "p", Type: selection.RSPrimary, LastUpdate: at}
	silent := selection.Server{Address: "silent", Type: selection.RSSecondary, LastUpdate: at}
	fresh := selection.Server{Address: "fresh", Type: selection.RSSecondary, LastUpdate: at, LastWrite: at}
	stale := selection.Server{Address: "stale", Type: selection.RSSecondary, LastUpdate: at, LastWrite: at.Add(-time.Hour)}
	op := selection.Operation{Preference: selection.ReadPreference{Mode: selection.Secondary, MaxStaleness: new(2 * time.Minute)}}
	for name, tc := range map[string]struct {
		servers []*selection.Server
		want    []string
	}{
		"nobody tells":          {servers: []*selection.Server{&silent}, want: []string{}},
		"some tell":             {servers: []*selection.Server{&silent, &fresh, &stale}, want: []string{"fresh"}},
		"the primary is mute":   {servers: []*selection.Server{&p, &silent, &fresh, &stale}, want: []string{"fresh"}},
		"only mute secondaries": {servers: []*selection.Server{&p, &silent}, want: []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			top := &selection.Topology{Type: selection.ReplicaSetWithPrimary, Servers: tc.servers}
			got, err := top.Suitable(&op)
			if err != nil || !slices.Equal(addresses(got), tc.want) {
				t.Errorf("Suitable = %v, %v; want %v", addresses(got), err, tc.want)
			}
		})
	}
}

// The nearest is always in the window, everyone in it is within the threshold
// of the nearest, and a wide window loses nobody.
func TestInWindowProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		top := drawTopology(t)
		threshold := time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Second)).Draw(t, "threshold"))
		before := slices.Clone(top.Servers)
		got := selection.InWindow(top.Servers, threshold)
		if !slices.Equal(before, top.Servers) {
			t.Fatal("the argument was changed")
		}
		shortest := time.Duration(math.MaxInt64)
		for _, s := range top.Servers {
			if rtt, ok := s.RTT.Average(); ok {
				shortest = min(shortest, rtt)
			}
		}
		for _, s := range top.Servers {
			rtt, ok := s.RTT.Average()
			want := !ok || len(top.Servers) == 1 || rtt <= shortest+max(threshold, 0)
			if slices.Contains(got, s) != want {
				t.Fatalf("%v in window = %t with shortest %v and threshold %v", s, !want, shortest, threshold)
			}
		}
		if wide := selection.InWindow(top.Servers, math.MaxInt64); len(wide) != len(top.Servers) {
			t.Fatalf("an endless window keeps %d of %d", len(wide), len(top.Servers))
		}
	})
}

// An average stays between its samples.
func TestRTTProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var rtt selection.RTT
		low, high := time.Duration(math.MaxInt64), time.Duration(0)
		for _, ns := range rapid.SliceOfN(rapid.Int64Range(-1, int64(time.Hour)), 1, 50).Draw(t, "samples") {
			rtt = rtt.Add(time.Duration(ns))
			if ns >= 0 {
				low, high = min(low, time.Duration(ns)), max(high, time.Duration(ns))
			}
			if avg, ok := rtt.Average(); ok && (avg < low-1 || avg > high+1) {
				t.Fatalf("average %v outside [%v, %v]", avg, low, high)
			}
		}
	})
}

// What would make a preference wrong, and where it is noticed.
func TestPreferences(t *testing.T) {
	seconds := func(n int) *time.Duration { return new(time.Duration(n) * time.Second) }
	set, sharded := selection.ReplicaSetNoPrimary, selection.Sharded
	for name, tc := range map[string]struct {
		p     selection.ReadPreference
		where selection.TopologyType
		every time.Duration
		valid bool
	}{
		"zero value":                       {valid: true, where: set},
		"empty tag set with primary":       {p: selection.ReadPreference{TagSets: []selection.TagSet{{}}}, valid: true, where: set},
		"tags with primary":                {p: selection.ReadPreference{TagSets: []selection.TagSet{{}, {"a": "b"}}}, where: sharded},
		"staleness with primary":           {p: selection.ReadPreference{MaxStaleness: seconds(120)}, where: sharded},
		"no staleness, spelled -1":         {p: selection.ReadPreference{MaxStaleness: seconds(-1)}, valid: true, where: set},
		"no such mode":                     {p: selection.ReadPreference{Mode: 17}, where: set},
		"zero staleness":                   {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(0)}, where: set},
		"89 s":                             {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(89)}, where: set},
		"90 s":                             {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(90)}, valid: true, where: set},
		"89 s where it does not matter":    {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(89)}, valid: true, where: sharded},
		"less than heartbeat plus 10 s":    {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(129)}, where: set, every: 2 * time.Minute},
		"exactly heartbeat plus 10 s":      {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(130)}, valid: true, where: set, every: 2 * time.Minute},
		"staleness in an unknown topology": {p: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: seconds(1)}, valid: true},
	} {
		t.Run(name, func(t *testing.T) {
			top := &selection.Topology{Type: tc.where, Every: tc.every}
			if _, err := top.Suitable(&selection.Operation{Preference: tc.p}); (err == nil) != tc.valid {
				t.Errorf("Suitable: %v, want valid = %t", err, tc.valid)
			}
			if _, err := top.Suitable(&selection.Operation{Preference: tc.p, Write: true}); err != nil {
				t.Errorf("a write must ignore the preference: %v", err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for m := selection.Primary; m <= selection.Nearest; m++ {
		if got, err := selection.ParseMode(m.String()); got != m || err != nil {
			t.Errorf("ParseMode(%q) = %v, %v", m, got, err)
		}
	}
	for s := selection.Unknown; s <= selection.LoadBalancer; s++ {
		if got, err := selection.ParseServerType(s.String()); got != s || err != nil {
			t.Errorf("ParseServerType(%q) = %v, %v", s, got, err)
		}
	}
	for k := selection.TopologyUnknown; k <= selection.ReplicaSetNoPrimary; k++ {
		if got, err := selection.ParseTopologyType(k.String()); got != k || err != nil {
			t.Errorf("ParseTopologyType(%q) = %v, %v", k, got, err)
		}
	}
	_, mode := selection.ParseMode("closest")
	_, server := selection.ParseServerType("Butler")
	_, topology := selection.ParseTopologyType("Ring")
	if mode == nil || server == nil || topology == nil {
		t.Errorf("unknown names were taken: %v, %v, %v", mode, server, topology)
	}
}
