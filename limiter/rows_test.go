package limiter_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/admitd/admitd/limiter"
)

// Rows lists the keys that are asked for, fills up with others, and never with
// partitions of the configuration, even when a key bears the name of one.
func TestRows(t *testing.T) {
	g := limiter.New("orders", &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "gold", Match: "gold-*"}}}, limiter.Options{})
	for i := range 10 {
		p, err := g.TryAdmit(g.Now(), limiter.Request{Key: fmt.Sprintf("t-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	}
	names := func(prefer []string, n int) (out []string) {
		for _, r := range g.Rows(prefer, n) {
			out = append(out, r.Name)
		}
		return out
	}
	if got := names([]string{"t-9", "gone", "default", "gold-1", "t-3", "t-9", "t-5"}, 3); !slices.Equal(got, []string{"t-3", "t-5", "t-9"}) {
		t.Errorf("Rows = %v; want the preferred ones that exist", got)
	}
	if got := names([]string{"t-9"}, 4); len(got) != 4 || !slices.Contains(got, "t-9") || !slices.IsSorted(got) {
		t.Errorf("Rows = %v; want t-9 and three others", got)
	}
	if got := names(nil, 100); len(got) != 10 {
		t.Errorf("Rows = %v; want the ten that there are", got)
	}
}
