package history_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/limiter"
)

// Those that are asked most are found among many, the busiest first, and the
// gauges are over all of them.
func TestBusiest(t *testing.T) {
	const tenants = 5000
	var book history.Book
	now := time.Now()
	for second := range 4 {
		all := func(yield func(limiter.Brief) bool) {
			for i := range tenants {
				g := limiter.Brief{Name: fmt.Sprintf("tenant-%04d", i), Key: true, Number: i, Limit: 2, Admitted: 1, BaseRTT: 10 * time.Millisecond}
				if i%100 == 7 { // the rest asks no more
					g.Admitted += uint64(second * i)
				}
				if !yield(g) {
					return
				}
			}
		}
		book.Take(now.Add(time.Duration(second)*time.Second), []history.Reading{{Name: "orders", Partitions: all}})
	}
	want := []string{"tenant-4907", "tenant-4807", "tenant-4707"}
	if diff := cmp.Diff(want, book.Busiest("orders", 3)); diff != "" {
		t.Errorf("Busiest, 3 of them (-want +got):\n%s", diff)
	}
	all := book.Busiest("orders", tenants)
	if len(all) != tenants/100 || !slices.IsSortedFunc(all, func(a, b string) int { return strings.Compare(b, a) }) {
		t.Errorf("Busiest returns %d, in the order %v; want the 50 that ask, the busiest first", len(all), all)
	}
	if g := book.Gauges("orders"); g.Limit != 2*tenants || g.BaseRTTMS != 10 {
		t.Errorf("Gauges = %+v; want a limit of %d and a base of 10 ms", g, 2*tenants)
	}
	if book.Busiest("nobody", 3) != nil || book.Gauges("nobody") != (history.Gauges{}) {
		t.Error("an ingress that was never read has busy keys, or gauges")
	}
}
