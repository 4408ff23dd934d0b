package admin_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/limiter"
)

// A client's key that was the name of a named partition took its row on the live
// page, which tells rows apart by name.
func TestAKeyTakesNoNamedRow(t *testing.T) {
	d := newDaemon(&limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "checkout", Match: "co-*"}}})
	s := newServer(t, d, admin.Options{})
	for _, key := range []string{"co-1", "checkout", "checkout", "other"} {
		permit, err := d.gate.Admit(t.Context(), limiter.Request{Key: key})
		if err != nil {
			t.Fatalf("Admit: %v", err)
		}
		defer permit.End(limiter.Ignored)
	}
	got := decode[struct {
		Ingresses []struct {
			Partitions []struct {
				Name     string
				Key      bool
				InFlight int
			}
		}
	}](t, call{method: "GET", path: "/v1/status"}.do(t, s))
	rows := map[string]int{}
	for _, p := range got.Ingresses[0].Partitions {
		if p.InFlight > 0 {
			rows[p.Name] = p.InFlight
		}
		if want := p.Name == "checkout (key)" || p.Name == "other"; p.Key != want {
			t.Errorf("%s: key is %v; want %v", p.Name, p.Key, want)
		}
	}
	if diff := cmp.Diff(map[string]int{"checkout": 1, "checkout (key)": 2, "other": 1}, rows); diff != "" {
		t.Errorf("rows and what they have in flight (-want +got):\n%s", diff)
	}
}
