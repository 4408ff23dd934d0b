package daemon_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/internal/testkit/keypair"
	"github.com/admitd/admitd/limiter"
)

// Changes at run time read no file: while a certificate is being renewed, what is on
// disk does not fit together, and overrides can be set and undone all the same, end by
// themselves, and settings change. One such certificate once took all of this away,
// from every ingress.
func TestRuntimeChangesReadNoFile(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	cfg := configured.From(t, fmt.Sprintf(`
admin: { listen: 127.0.0.1:0 }
ingresses:
- { name: a, listen: "127.0.0.1:0", backend: "http://127.0.0.1:1", partitions: { by: "header:X-Tenant", named: [{ name: batch, match: batch }] } }
- { name: b, listen: "127.0.0.1:0", backend: "https://127.0.0.1:1", backendTLS: { caFile: %q }, tls: { certFile: %q, keyFile: %q } }`, cert, cert, key))
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
		if err := errors.Join(os.WriteFile(key, nil, 0o600), os.Remove(cert)); err != nil {
			t.Fatal(err)
		}
		block := admin.OverrideChange{Block: true, For: time.Hour}
		set, err := d.Overrides().Override(t.Context(), "a", "batch", block)
		if err != nil {
			t.Fatal(err)
		}
		blocked(true)
		if _, err := d.Overrides().Undo(t.Context(), "a", set.ID, "me"); err != nil {
			t.Error(err)
		}
		blocked(false)
		if _, err := d.Overrides().Override(t.Context(), "a", "batch", block); err != nil {
			t.Error(err)
		}
		blocked(true)
		time.Sleep(time.Hour)
		synctest.Wait()
		blocked(false)
		off := []byte(`{"mode":"off"}`)
		for _, name := range []string{"a", "b"} {
			if _, _, err := d.Patch(t.Context(), name, admin.Patch{Settings: off}); err != nil {
				t.Error(err)
			}
		}
		if err := d.Apply(t.Context(), cfg); err == nil {
			t.Error("a reload did not miss the files")
		}
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
