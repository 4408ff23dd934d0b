package fleet_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/fleet"
)

// FuzzAnswer: whatever Redis says, a gate takes no rate, share or wait from it
// that cannot be.
func FuzzAnswer(f *testing.F) {
	f.Add("ok 2 2 7 b a=b\n10 0 50 e1 1000 100 200 3 7.5 2")
	f.Add("ok 1 1 0 -\n10 1 50 e1 0 100 200 3 7.5 1 more")
	f.Add("ok 1 1 0 -\nNaN 0 -1 e 1e300 0 Inf -Inf 1e30")
	f.Add("ok 1 1 0 -\n1 0 1 e -5 1 1 1 1e17")
	f.Fuzz(func(t *testing.T, text string) {
		reply := strings.Split(text, "\n")
		if understood, wrong := fleet.CheckAnswer(reply, len(reply)-1); wrong != "" {
			t.Errorf("%q is taken as %s", text, wrong)
		} else if understood && len(reply) == 0 {
			t.Error("nothing was understood as something")
		}
	})
}
