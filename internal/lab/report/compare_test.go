package report_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/measure"
	"github.com/admitd/admitd/internal/lab/report"
)

// Compare tells what changed by more than the seeds differ.
func TestCompare(t *testing.T) {
	result := func(seed uint64, good, refused int) *measure.Result {
		return &measure.Result{Scenario: "x", Variant: "v", Contender: "c", Seed: seed, Windows: []measure.Window{
			{Name: "all", Seconds: 1, Capacity: 100, Offered: 100, Good: good, Refused: refused},
		}}
	}
	before := []*measure.Result{result(1, 50, 10), result(2, 52, 30)}
	after := []*measure.Result{result(1, 60, 20), result(2, 61, 25)}
	var changed []string
	changes, _ := report.Compare(before, after)
	for _, c := range changes {
		changed = append(changed, c.Measure)
	}
	slices.Sort(changed)
	if diff := cmp.Diff([]string{"good", "goodput"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// What is compared is what both sets have, window by window and contender by
// contender, once; a difference that is just that of the seeds is none.
func TestCompareWhatBothHave(t *testing.T) {
	result := func(contender string, seed uint64, windows ...measure.Window) *measure.Result {
		for i := range windows {
			windows[i].Seconds, windows[i].Capacity, windows[i].Offered = 1, 100, 100
		}
		return &measure.Result{Scenario: "x", Variant: "v", Contender: contender, Seed: seed, Windows: windows}
	}
	before := []*measure.Result{
		result("a", 1, measure.Window{Name: "all"}, measure.Window{Name: "late", Failed: 10}),
		result("a", 2, measure.Window{Name: "all", Failed: 50}, measure.Window{Name: "late", Failed: 10}),
		result("gone", 1, measure.Window{Name: "all", Failed: 10}),
	}
	after := []*measure.Result{
		result("a", 1, measure.Window{Name: "all", Failed: 75}, measure.Window{Name: "later", Failed: 90}),
		result("new", 1, measure.Window{Name: "all", Failed: 90}),
	}
	if got, compared := report.Compare(before, after); len(got) != 0 || compared != 1 {
		t.Errorf("changed: %+v, of %d windows; want nothing of the one in both, 25 to 75 per cent is as far as the seeds are apart", got, compared)
	}
	after[0].Windows[0].Failed = 80
	want := []report.Change{{Scenario: "x", Variant: "v", Window: "all", Contender: "a", Measure: "failed", Before: 0.25, After: 0.8}}
	got, _ := report.Compare(before, after)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}

// Sets that have nothing in common are not said to be the same: nothing of them was
// compared.
func TestCompareNothing(t *testing.T) {
	result := func(scenario string) []*measure.Result {
		return []*measure.Result{{Scenario: scenario, Variant: "v", Contender: "c", Windows: []measure.Window{{Name: "all", Seconds: 1, Capacity: 1}}}}
	}
	if changes, compared := report.Compare(result("a"), result("b")); len(changes) != 0 || compared != 0 {
		t.Errorf("%d changes in %d windows; want nothing compared", len(changes), compared)
	}
}
