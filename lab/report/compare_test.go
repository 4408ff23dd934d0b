package report_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/lab/measure"
	"github.com/admitd/admitd/lab/report"
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
	for _, c := range report.Compare(before, after) {
		changed = append(changed, c.Measure)
	}
	slices.Sort(changed)
	if diff := cmp.Diff([]string{"good", "goodput"}, changed); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
}
