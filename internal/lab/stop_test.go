package lab_test

import (
	"fmt"
	"testing"

	"github.com/admitd/admitd/internal/lab"
)

// A backend that stood still answers what it had, late, and then is what it was. The
// old answers once came into the window in which the limit had come down, latency
// therefore seemed not to follow what was in flight, and the length of the stop was
// taken for the latency of the backend: 160 ms where it was 10, and nobody served in
// time, for minutes.
func TestStopTellsNothingOfTheBackend(t *testing.T) {
	if testing.Short() {
		t.Skip("plays seven minutes of twice the capacity")
	}
	for _, tc := range []struct {
		patience string
		from, to float64 // s
	}{{"30s", 40.4, 50.4}, {"30s", 41.9, 51.9}, {"200ms", 40.4, 50.4}, {"200ms", 41.9, 51.9}, {"1s", 41.9, 44.9}} {
		s := onlyVariant(t, fmt.Sprintf(`
name: stop
about: The backend stands still for a while, at twice what it can do.
for: 90s
timeout: %s
load: [{ at: 0s, load: 2 }]
backend: { workers: 8, service: { mean: 10ms } }
health: [{ at: %.0fms, frozen: true }, { at: %.0fms }]
windows: [{ name: after, from: 75s, to: 90s }]
`, tc.patience, tc.from*1e3, tc.to*1e3))
		list := lab.Contenders(s)
		r, err := lab.Play(s, list[len(list)-1], 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		goodput, _ := r.Value("goodput", "after")
		if w := r.Windows[0]; goodput < 0.95 || w.P50 > 0.03 {
			t.Errorf("patience %s, stopped from %v to %v s: goodput is %.2f, half of the answers take more than %v s; want 0.95 and 0.03",
				tc.patience, tc.from, tc.to, goodput, w.P50)
		}
	}
}
