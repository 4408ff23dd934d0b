package ingress_test

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
)

// A reload that gives an ingress a new server began its counts anew: the gauge of
// connections read 0 with 30 open, and as many came in again as may be open.
func TestServersShareCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := &ingress.Counts{}
		o := ingress.Options{Counts: counts, Connections: ingress.Connections{MaxOpen: 3}}
		old, next := ingress.NewDoor("orders", o), ingress.NewDoor("orders", o)
		enter := func(d *ingress.Door, n int) (let int, leave func()) {
			pipes := newPipeListener()
			ln := d.Listen(t.Context(), pipes)
			var in []interface{ Close() error }
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					in = append(in, c)
				}
			}()
			for range n {
				pipes.dial()
			}
			synctest.Wait()
			_ = ln.Close()
			synctest.Wait()
			return len(in), func() {
				for _, c := range in {
					_ = c.Close()
				}
			}
		}
		before, leave := enter(old, 2)
		after, leaveNext := enter(next, 2)
		if s := next.Status(); before != 2 || after != 1 || s.Open != 3 || s.Accepted != 3 || s.Refused[ingress.OverOpen] != 1 {
			t.Errorf("%d and %d came in, %+v; want 2 and 1, 3 open and 1 refused", before, after, s)
		}
		leave()
		if s := next.Status(); s.Open != 1 {
			t.Errorf("%d are open after the old server's have left; want 1", s.Open)
		}
		leaveNext()
		if s := old.Status(); s.Open != 0 || s.Accepted != 3 {
			t.Errorf("%+v after all have left; want none open, and 3 that came in", s)
		}
	})
}

// Answers are counted by class, and what a gate answers by itself by status.
func TestCounts(t *testing.T) {
	var none *ingress.Counts
	none.Responded(ingress.Response5xx)
	none.Invalid(http.StatusBadRequest)
	var all ingress.AllCounts
	c := all.Of("orders")
	for _, status := range []int{200, 299, 304, 404, 429, 500, 599} {
		c.Responded(ingress.ResponseTo(status))
	}
	for _, status := range []int{400, 413, 413, 418} {
		c.Invalid(status)
	}
	s := ingress.NewDoor("orders", ingress.Options{Counts: all.Of("orders")}).Status()
	if d := cmp.Diff([]uint64{2, 1, 2, 2, 0, 0}, s.Responses); d != "" {
		t.Errorf("responses (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]ingress.InvalidCount{{Status: 400, Count: 1}, {Status: 413, Count: 2}, {Status: 0, Count: 1}}, s.Invalid); d != "" {
		t.Errorf("invalid (-want +got):\n%s", d)
	}
	if all.Of("other") == c {
		t.Error("two ingresses share their counts")
	}
}
