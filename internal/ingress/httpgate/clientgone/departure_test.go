package clientgone_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/clientgone"
)

// Whoever waits learns of a departure once, whenever it came, and whoever does not
// want to know any more does not.
func TestLeave(t *testing.T) {
	for name, early := range map[string]bool{"before somebody asks": true, "afterwards": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var c clientgone.Context
				if early {
					c.Leave()
				}
				var told [2]int
				c.OnLeave(func() { told[0]++ })
				stop := context.AfterFunc(&c, func() { told[1]++ })
				derived, cancel := context.WithTimeout(&c, time.Hour)
				defer cancel()
				if !early {
					synctest.Wait()
					if c.Err() != nil || c.HasLeft() || told != [2]int{} {
						t.Fatalf("Err() = %v, HasLeft() = %v, told %v; want nothing yet", c.Err(), c.HasLeft(), told)
					}
					c.Leave()
				}
				c.Leave()
				<-c.Done()
				<-derived.Done()
				synctest.Wait()
				if !errors.Is(c.Err(), context.Canceled) || !c.HasLeft() || told != [2]int{1, 1} {
					t.Errorf("Err() = %v, HasLeft() = %v, told %v; want each told once", c.Err(), c.HasLeft(), told)
				}
				if stop() {
					t.Error("what has run was stopped")
				}
			})
		})
	}
}

// Who takes back what it wanted to know is not told, and leaves nothing behind: the
// next request may use the context. A channel that somebody has stays theirs.
func TestTakeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wanted := 0
		c := clientgone.Context{Wanted: func() { wanted++ }}
		stop, other := c.OnLeave(func() { t.Error("told") }), c.AfterFunc(func() { t.Error("told") })
		if wanted != 2 || c.IsUnknown() {
			t.Errorf("wanted %d times, IsUnknown() = %v; want 2, false", wanted, c.IsUnknown())
		}
		if !stop() || !other() || stop() || other() {
			t.Error("each is taken back once")
		}
		if !c.IsUnknown() {
			t.Error("nobody waits, and somebody may know of it")
		}
		if c.Done(); c.IsUnknown() {
			t.Error("somebody has its channel")
		}
		c.Leave()
		synctest.Wait()
	})
}

// Every request that goes to the backend asks once.
func TestOnLeaveAllocatesNothing(t *testing.T) {
	var c clientgone.Context
	f := func() {}
	c.OnLeave(f)()
	if n := testing.AllocsPerRun(100, func() { c.OnLeave(f)() }); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}
