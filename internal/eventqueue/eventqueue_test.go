package eventqueue_test

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/eventqueue"
)

// entry is what a plain list knows of a value.
type entry struct {
	at    int64
	order int
}

// Whatever is added and taken in whatever order, the event queue gives what a sorted list
// would: the earliest first, and of one time the one that was added first.
func TestEventQueueIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a eventqueue.Queue[int]
		var list []entry
		added := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				at := rapid.Int64Range(0, 20).Draw(t, "at")
				a.Add(at, added)
				list = append(list, entry{at, added})
				slices.SortStableFunc(list, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
				added++
			},
			"take": func(t *rapid.T) {
				if len(list) == 0 {
					t.Skip("empty")
				}
				at, got := a.Take()
				if want := list[0]; at != want.at || got != want.order {
					t.Fatalf("Take() = value %d of %d; want %d of %d", got, at, want.order, want.at)
				}
				list = list[1:]
			},
			"": func(t *rapid.T) {
				at, ok := a.Next()
				if ok != (len(list) > 0) || ok && at != list[0].at {
					t.Fatalf("Next() = %d, %v with %d values, want that of the first", at, ok, len(list))
				}
			},
		})
	})
}

// What was taken is not kept alive, and what stays small does not allocate.
func TestEventQueueAllocatesToGrowOnly(t *testing.T) {
	var a eventqueue.Queue[func()]
	for i := range 100 {
		a.Add(int64(i), func() {})
	}
	if n := testing.AllocsPerRun(1000, func() {
		at, f := a.Take()
		a.Add(at+100, f)
	}); n != 0 {
		t.Errorf("taking and adding allocates %v times; want none", n)
	}
}
