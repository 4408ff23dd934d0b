package daemon_test

import (
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// An override that cannot be undone, because a certificate is just being renewed,
// stays in force and on the list, and one whose time is over is tried again: it was
// gone from the list and in force until something else changed.
func TestOverridesThatCannotBeUndone(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	cfg := configured.From(t, fmt.Sprintf(`
admin: { listen: 127.0.0.1:0 }
ingresses: [{ name: a, listen: "127.0.0.1:0", backend: "http://127.0.0.1:1", tls: { certFile: %q, keyFile: %q },
  partitions: { by: "header:X-Tenant", named: [{ name: batch, match: batch }] } }]`, cert, key))
	synctest.Test(t, func(t *testing.T) {
		d, err := daemon.Standing(cfg)
		if err != nil {
			t.Fatal(err)
		}
		blocked := func(want bool) {
			t.Helper()
			all, err := d.Overrides().Overrides("a")
			if err != nil || (len(all) == 1) != want {
				t.Errorf("overrides: %v, %v; want one = %v", all, err, want)
			}
			permit, err := d.Gate("a").Admit(t.Context(), limiter.Request{Key: "batch"})
			if (err != nil) != want {
				t.Errorf("admit: %v; want refused = %v", err, want)
			}
			permit.End(limiter.Ignored)
		}
		set, err := d.Overrides().Override(t.Context(), "a", "batch", admin.OverrideChange{Block: true, For: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		blocked(true)
		if err := os.Rename(key, key+".old"); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Overrides().Undo(t.Context(), "a", set.ID, "me"); err == nil {
			t.Error("an override was undone without the key of its listener")
		}
		blocked(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		blocked(true)
		if err := os.Rename(key+".old", key); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		blocked(false)
	})
}

// An override whose time was over while its ingress was away does not come back with
// it: nobody undid it any more.
func TestOverridesEndWithoutTheirIngress(t *testing.T) {
	const others = "admin: { listen: 127.0.0.1:0 }\ningresses: [{ name: b }"
	without, with := configured.From(t, others+"]"), configured.From(t, others+`, { name: a, partitions: { by: "header:X-Tenant" } }]`)
	synctest.Test(t, func(t *testing.T) {
		d, err := daemon.Standing(with)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := d.Overrides().Override(t.Context(), "a", "batch", admin.OverrideChange{Block: true, For: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if err := d.Apply(t.Context(), without); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if err := d.Apply(t.Context(), with); err != nil {
			t.Fatal(err)
		}
		if all, err := d.Overrides().Overrides("a"); err != nil || len(all) > 0 {
			t.Errorf("overrides: %v, %v; want none", all, err)
		}
		if _, err := d.Gate("a").Admit(t.Context(), limiter.Request{Key: "batch"}); err != nil {
			t.Errorf("admit: %v", err)
		}
	})
}
