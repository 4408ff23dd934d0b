package daemon_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
)

// passing returns how many of n requests at once the gate admits.
func passing(t *testing.T, g *limiter.Gate, n int, req limiter.Request) (admitted int) {
	t.Helper()
	req.MaxWait = limiter.NoWait
	var held []limiter.Permit
	for range n {
		permit, err := g.Admit(t.Context(), req)
		switch _, refused := errors.AsType[*limiter.Rejection](err); {
		case err == nil:
			held = append(held, permit)
		case !refused:
			t.Fatal(err)
		}
	}
	for _, permit := range held {
		permit.End(limiter.Ignored)
	}
	return len(held)
}

// An override that is answered with success is in force, measured at the gate, for the
// key alone; or it is an error. Those of keys that a named partition serves, and of
// default, did nothing and said that they worked.
func TestOverridesAreInForce(t *testing.T) {
	const parts = `{ by: "header:X-Tenant", max: 3, default: { limit: { algorithm: fixed, limit: 20 } }, named: [
    { name: vip, match: "vip-*", limit: { algorithm: fixed, limit: 20 } }, { name: gold, match: "vip-gold-*", limit: { algorithm: fixed, limit: 20 } },
    { name: checkout, match: shop-7, limit: { algorithm: fixed, limit: 20 } } ] }`
	cfg := configured.From(t, "admin: { listen: 127.0.0.1:0 }\ningresses:\n- { name: a, partitions: "+parts+" }\n"+
		`- { name: one, partitions: { by: "header:X-Tenant", share: one, default: { limit: { algorithm: fixed, limit: 20 } } } }`)
	one, five := 1.0, 5
	block := admin.OverrideChange{Block: true}
	for _, tc := range []struct {
		key, request string // request = the key of requests that are measured; "" = none
		beside       string // a key that is not changed
		change       admin.OverrideChange
		want         int // of 20 at once; the rest of the buckets' seconds is 1
	}{
		{"plain-1", "plain-1", "plain-2", block, 0},
		{"plain-1", "plain-1", "plain-2", admin.OverrideChange{Rate: &one}, 1},
		{"plain-1", "plain-1", "plain-2", admin.OverrideChange{Limit: &five}, 5},
		{limiter.KeyName("caf\xe9"), "caf\xe9", "caf\xe8", block, 0},
		{"vip-1", "vip-1", "vip-2", block, 0},
		{"vip-1", "vip-1", "vip-2", admin.OverrideChange{Rate: &one}, 1},
		{"vip-1", "vip-1", "vip-gold-1", admin.OverrideChange{Limit: &five}, 5},
		{"vip-gold-1", "vip-gold-1", "vip-1", block, 0},
		{"vip", "vip-3", "vip-gold-1", block, 0}, // all whom the partition serves
		{"shop-7", "shop-7", "plain-1", block, 0},
		{"checkout", "shop-7", "plain-1", admin.OverrideChange{Limit: &five}, 5},
		{"default", "", "plain-1", block, 0},
		{"default", "", "plain-1", admin.OverrideChange{Limit: &five}, 5},
		{"beyond-max", "beyond-max", "plain-1", block, 0},
		{"overflow", "after-max", "plain-1", block, 0},
	} {
		t.Run(tc.key+" "+(&admin.Override{OverrideChange: tc.change}).String(), func(t *testing.T) {
			d, err := daemon.Standing(cfg)
			if err != nil {
				t.Fatal(err)
			}
			g, req, beside := d.Gate("a"), limiter.Request{Key: tc.request}, limiter.Request{Key: tc.beside}
			for _, key := range []string{"plain-1", "plain-2", "plain-3"} { // as many as there may be
				passing(t, g, 1, limiter.Request{Key: key})
			}
			measure := func(when string, want int) {
				t.Helper()
				if got := passing(t, g, 20, req); got != want {
					t.Errorf("%s: %d of 20 pass; want %d", when, got, want)
				}
				if got := passing(t, g, 20, beside); got != 20 {
					t.Errorf("%s: %d of 20 of %s pass; want all", when, got, tc.beside)
				}
			}
			measure("before", 20)
			set, err := d.Overrides().Override(t.Context(), "a", tc.key, tc.change)
			if err != nil {
				t.Fatal(err)
			}
			measure("overridden", tc.want)
			if tc.change.Block {
				exempt := req
				exempt.Exempt = true
				if got := passing(t, g, 20, exempt); got != 0 {
					t.Errorf("%d exempt requests pass a block", got)
				}
				exempt.Ends = true
				if got := passing(t, g, 1, exempt); got != 1 {
					t.Error("what ends admitted work does not pass a block")
				}
			}
			if err := d.Apply(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if !tc.change.Block && tc.change.Rate != nil {
				tc.want = 0 // the token is spent
			}
			measure("after a reload", tc.want)
			if _, err := d.Overrides().Undo(t.Context(), "a", set.ID, "me"); err != nil {
				t.Fatal(err)
			}
			measure("undone", 20)
		})
	}
	d, err := daemon.Standing(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Overrides().Override(t.Context(), "one", "t", admin.OverrideChange{Limit: &five}); err != nil {
		t.Error(err)
	}
	if got := passing(t, d.Gate("one"), 20, limiter.Request{Key: "t"}); got != five {
		t.Errorf("%d of 20 pass below one limit of all; want %d", got, five)
	}
	for _, tc := range []struct {
		mode   string
		change admin.OverrideChange
		taken  bool
	}{
		{"off", block, false},
		{"off", admin.OverrideChange{Rate: &one}, false},
		{"off", admin.OverrideChange{Limit: &five}, false},
		{"shadow", block, false},
		{"shadow", admin.OverrideChange{Rate: &one}, true}, // what it would refuse is counted
		{"enforce", block, true},
	} {
		other := *cfg
		other.Ingresses = slices.Clone(cfg.Ingresses)
		other.Ingresses[0].Mode = tc.mode
		if err := d.Apply(t.Context(), &other); err != nil {
			t.Fatal(err)
		}
		_, err := d.Overrides().Override(t.Context(), "a", "plain-1", tc.change)
		invalid, ok := errors.AsType[*admin.Invalid](err)
		if ok == tc.taken || ok && !strings.Contains(fmt.Sprint(invalid.Problems), "mode is "+tc.mode) {
			t.Errorf("mode %s, %s: %v", tc.mode, (&admin.Override{OverrideChange: tc.change}).String(), err)
		}
	}
	_, err = d.Overrides().Override(t.Context(), "a", strings.Repeat("k", 257), block)
	if invalid, ok := errors.AsType[*admin.Invalid](err); !ok || !strings.Contains(fmt.Sprint(invalid.Problems), "256 bytes") {
		t.Errorf("override of a key that the gate knows by its hash: %v; want an error", err)
	}
}

// A second override of a key lies over the first: it lifts no block that it does not
// name, and what it replaced holds again when its time is over.
func TestOverridesLieOverEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := daemon.Standing(configured.From(t, `{ admin: { listen: 127.0.0.1:0 }, ingresses: [{ name: a, partitions: { by: "header:X-Tenant" } }] }`))
		if err != nil {
			t.Fatal(err)
		}
		set := func(c admin.OverrideChange) admin.Override {
			t.Helper()
			v, err := d.Overrides().Override(t.Context(), "a", "evil", c)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		check := func(when string, passed, listed int) {
			t.Helper()
			synctest.Wait()
			if got := passing(t, d.Gate("a"), 3, limiter.Request{Key: "evil"}); got != passed {
				t.Errorf("%s: %d of 3 pass; want %d", when, got, passed)
			}
			if all, err := d.Overrides().Overrides("a"); err != nil || len(all) != listed {
				t.Errorf("%s: overrides %v, %v; want %d", when, all, err, listed)
			}
		}
		two, hundred, unlimited := 2.0, 100.0, 0.0
		set(admin.OverrideChange{Block: true, For: 30 * time.Minute})
		set(admin.OverrideChange{BurstSeconds: &two, For: 2 * time.Second})
		check("blocked, and another word of its burst", 0, 2)
		time.Sleep(3 * time.Second)
		check("the burst is over", 0, 1)
		set(admin.OverrideChange{Rate: &unlimited, For: time.Minute})
		check("released for a minute", 3, 2)
		time.Sleep(2 * time.Minute)
		check("the minute is over", 0, 1)
		last := set(admin.OverrideChange{Rate: &hundred})
		check("replaced until it is undone", 3, 1)
		time.Sleep(time.Hour)
		check("the block would be over", 3, 1)
		if _, err := d.Overrides().Undo(t.Context(), "a", last.ID, "me"); err != nil {
			t.Error(err)
		}
		check("undone", 3, 0)
	})
}
