package selection_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

// told is one step of discovery: a server answered, or failed, and this is the
// picture after it.
type told struct {
	address string
	hello   labels.Hello // zero role: it failed
	want    string
}

func member(role labels.Role, hosts ...string) labels.Hello {
	h := hello(role)
	h.SetName, h.Hosts = "rs", hosts
	return h
}

func term(n int64, h labels.Hello) labels.Hello { h.Term = n; return h }

func named(set string, h labels.Hello) labels.Hello { h.SetName = set; return h }

func knownAs(me, primary string, h labels.Hello) labels.Hello {
	h.Me, h.Primary = me, primary
	return h
}

func TestDiscovery(t *testing.T) {
	for name, tc := range map[string]struct {
		seeds   string
		options selection.SeedOptions
		steps   []told
	}{
		"one standalone": {seeds: "A:1", steps: []told{
			{"a:1", hello(labels.RoleStandalone), "Single a:1=Standalone"},
			{"a:1", labels.Hello{}, "Single a:1=Unknown"},
		}},
		"a standalone among several does not belong": {seeds: "a:1 b:1", steps: []told{
			{"a:1", hello(labels.RoleStandalone), "Unknown b:1=Unknown"},
			{"b:1", hello(labels.RoleRouter), "Sharded b:1=Mongos"},
		}},
		"routers": {seeds: "a:1 b:1 c:1", steps: []told{
			{"a:1", labels.Hello{}, "Unknown a:1=Unknown b:1=Unknown c:1=Unknown"},
			{"b:1", hello(labels.RoleRouter), "Sharded a:1=Unknown b:1=Mongos c:1=Unknown"},
			{"c:1", member(labels.RoleSecondary), "Sharded a:1=Unknown b:1=Mongos"},
			{"x:1", hello(labels.RoleRouter), "Sharded a:1=Unknown b:1=Mongos"},
		}},
		"direct": {seeds: "a:1", options: selection.SeedOptions{Direct: true, SetName: "rs"}, steps: []told{
			{"a:1", member(labels.RoleSecondary, "a:1", "b:1"), "Single rs a:1=RSSecondary"},
			{"a:1", named("other", member(labels.RolePrimary)), "Single rs a:1=Unknown"},
		}},
		"a balancer is never lost": {seeds: "a:1", options: selection.SeedOptions{LoadBalanced: true}, steps: []told{
			{"a:1", labels.Hello{}, "LoadBalanced a:1=LoadBalancer"},
		}},
		"a set is found from a secondary": {seeds: "b:1", steps: []told{
			{"b:1", knownAs("b:1", "a:1", member(labels.RoleSecondary, "a:1", "B:1", "not an address")), "ReplicaSetNoPrimary rs b:1=RSSecondary a:1=PossiblePrimary"},
			{"a:1", member(labels.RolePrimary, "a:1", "b:1", "c:1"), "ReplicaSetWithPrimary rs b:1=RSSecondary a:1=RSPrimary c:1=Unknown"},
			{"c:1", member(labels.RoleArbiter, "z:1"), "ReplicaSetWithPrimary rs b:1=RSSecondary a:1=RSPrimary c:1=RSArbiter"},
			{"a:1", member(labels.RolePrimary, "a:1", "b:1"), "ReplicaSetWithPrimary rs b:1=RSSecondary a:1=RSPrimary"},
			{"a:1", labels.Hello{}, "ReplicaSetNoPrimary rs b:1=RSSecondary a:1=Unknown"},
		}},
		"the later election wins": {seeds: "a:1 b:1", options: selection.SeedOptions{SetName: "rs"}, steps: []told{
			{"a:1", term(2, member(labels.RolePrimary, "a:1", "b:1")), "ReplicaSetWithPrimary rs a:1=RSPrimary b:1=Unknown"},
			{"b:1", term(1, member(labels.RolePrimary, "a:1", "b:1")), "ReplicaSetWithPrimary rs a:1=RSPrimary b:1=Unknown"},
			{"b:1", term(3, member(labels.RolePrimary, "a:1", "b:1")), "ReplicaSetWithPrimary rs a:1=Unknown b:1=RSPrimary"},
		}},
		"without terms the one heard last wins": {seeds: "a:1 b:1", steps: []told{
			{"a:1", member(labels.RolePrimary), "ReplicaSetWithPrimary rs a:1=RSPrimary b:1=Unknown"},
			{"b:1", member(labels.RolePrimary), "ReplicaSetWithPrimary rs a:1=Unknown b:1=RSPrimary"},
		}},
		"strangers are not taken in": {seeds: "a:1 b:1 c:1 d:1", options: selection.SeedOptions{SetName: "rs"}, steps: []told{
			{"a:1", named("other", member(labels.RolePrimary)), "ReplicaSetNoPrimary rs b:1=Unknown c:1=Unknown d:1=Unknown"},
			{"b:1", hello(labels.RoleRouter), "ReplicaSetNoPrimary rs c:1=Unknown d:1=Unknown"},
			{"c:1", hello(labels.RoleGhost), "ReplicaSetNoPrimary rs c:1=RSGhost d:1=Unknown"},
			{"d:1", knownAs("e:1", "", member(labels.RoleSecondary, "e:1")), "ReplicaSetNoPrimary rs c:1=RSGhost e:1=Unknown"},
		}},
		"other without a set says nothing": {seeds: "a:1", steps: []told{
			{"a:1", hello(labels.RoleOther), "Unknown a:1=RSGhost"},
			{"a:1", member(labels.RoleOther), "ReplicaSetNoPrimary rs a:1=RSOther"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			view := selection.NewView(seeds(t, tc.options, strings.Fields(tc.seeds)...))
			for i, step := range tc.steps {
				if step.hello.Role == "" {
					view.MarkUnknown(step.address, errors.New("refused"))
				} else {
					view.Answered(step.address, step.hello, time.Millisecond, time.Now())
				}
				if diff := cmp.Diff(step.want, brief(view.Topology())); diff != "" {
					t.Fatalf("step %d, %s (-want +got):\n%s", i, step.address, diff)
				}
			}
		})
	}
}

func brief(t *selection.Topology) string {
	parts := []string{t.Type.String()}
	if t.SetName != "" {
		parts = append(parts, t.SetName)
	}
	for _, s := range t.Servers {
		parts = append(parts, s.Address+"="+s.Type.String())
	}
	return strings.Join(parts, " ")
}

func TestSeedsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		seeds   []string
		options selection.SeedOptions
	}{
		"none":               {},
		"no port":            {seeds: []string{"a"}},
		"no host":            {seeds: []string{":1"}},
		"path":               {seeds: []string{"a/path?:80"}},
		"user":               {seeds: []string{"u@a:80"}},
		"fragment":           {seeds: []string{"a#b:80"}},
		"escape":             {seeds: []string{"a%2fb:80"}},
		"backslash":          {seeds: []string{`a\b:80`}},
		"space":              {seeds: []string{"a b:80"}},
		"line":               {seeds: []string{"a\r\n:80"}},
		"zone":               {seeds: []string{"[fe80::1%eth0]:80"}},
		"colons":             {seeds: []string{"[a:b]:80"}},
		"port 0":             {seeds: []string{"a:0"}},
		"port of a name":     {seeds: []string{"a:http"}},
		"port with a path":   {seeds: []string{"a:80/x"}},
		"port beyond":        {seeds: []string{"a:65536"}},
		"direct to two":      {seeds: []string{"a:1", "b:1"}, options: selection.SeedOptions{Direct: true}},
		"two balancers":      {seeds: []string{"a:1", "b:1"}, options: selection.SeedOptions{LoadBalanced: true}},
		"direct balancer":    {seeds: []string{"a:1"}, options: selection.SeedOptions{LoadBalanced: true, Direct: true}},
		"balancer and a set": {seeds: []string{"a:1"}, options: selection.SeedOptions{LoadBalanced: true, SetName: "rs"}},
	} {
		t.Run(name, func(t *testing.T) {
			if top, err := selection.Seeds(tc.seeds, tc.options); !errors.Is(err, selection.ErrSeeds) {
				t.Errorf("Seeds = %v, %v; want ErrSeeds", top, err)
			}
		})
	}
}

// A hello sent clients to paths of its choice elsewhere: of its hosts those are taken
// in that are addresses.
func TestHelloNamesAddressesOnly(t *testing.T) {
	top, err := selection.Seeds([]string{"a:1", "[::1]:2", "192.0.2.1:3", "B-1.example_x:65535", "bücher.example:80"}, selection.SeedOptions{SetName: "rs"})
	if err != nil || len(top.Servers) != 5 {
		t.Fatalf("Seeds = %v, %v; want five servers", top, err)
	}
	v := selection.NewView(top)
	v.Answered("a:1", labels.Hello{
		Role: labels.RolePrimary, SetName: "rs", Me: "a:1",
		Hosts: []string{"a:1", "169.254.169.254/latest/meta-data/?:80", "c:9"},
	}, time.Millisecond, time.Now())
	var got []string
	for _, s := range v.Topology().Servers {
		got = append(got, s.Address)
	}
	if want := []string{"a:1", "c:9"}; !slices.Equal(got, want) {
		t.Errorf("servers %q; want %q", got, want)
	}
}

// Anybody may ask for a check while a monitor looks whether somebody did: the race
// detector sees a view without its lock.
func TestRequestCheckConcurrently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		net := newFakeNet(map[string]*fakeServer{"a:1": router(0), "b:1": router(0)})
		m, err := selection.NewMonitor([]string{"a:1", "b:1"}, selection.MonitorOptions{Check: selection.CheckOptions{Client: net.client()}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for ctx.Err() == nil {
					m.View().RequestCheck()
					time.Sleep(100 * time.Millisecond)
				}
			})
		}
		_ = m.Run(ctx)
		wg.Wait()
		if n := len(net.asks("a:1")); n < 19 || n > 21 { // every 500 ms
			t.Errorf("asked %d times in 10 s; want 20", n)
		}
	})
}

// A server of a protocol that the client does not speak fails the selection at
// once, naming both; so does max staleness with servers that tell no last write.
func TestWireVersions(t *testing.T) {
	bound := 2 * time.Minute
	for name, tc := range map[string]struct {
		wire     selection.WireRange
		min, max int
		op       selection.Operation
		want     bool // compatible
	}{
		"overlap":            {wire: selection.WireRange{Min: 6, Max: 25}, min: 25, max: 30, want: true},
		"server too old":     {wire: selection.WireRange{Min: 6, Max: 25}, max: 5},
		"server too new":     {wire: selection.WireRange{Min: 6, Max: 25}, min: 26, max: 30},
		"not told":           {wire: selection.WireRange{Min: 6, Max: 25}, want: true},
		"no range":           {min: 26, max: 30, want: true},
		"staleness, too old": {max: 4, op: selection.Operation{Preference: selection.ReadPreference{Mode: selection.Nearest, MaxStaleness: &bound}}},
	} {
		t.Run(name, func(t *testing.T) {
			top := routers(2)
			top.Wire = tc.wire
			top.Servers[1].MinWireVersion, top.Servers[1].MaxWireVersion = tc.min, tc.max
			_, err := selection.New(selection.NewView(top), selection.Options{}).Select(t.Context(), tc.op)
			if got := err == nil; got != tc.want || err != nil && !errors.Is(err, selection.ErrIncompatible) {
				t.Errorf("Select: %v, want compatible = %t", err, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), "gate1:8462") {
				t.Errorf("%q does not name the server", err)
			}
		})
	}
}
