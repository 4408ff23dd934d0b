package postgresgate_test

import (
	"testing"
	"testing/synctest"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
)

// A request that is passed on and answered leaves no garbage. It left three pieces,
// which nobody saw: what the query does, what was known of it, and a refusal that was
// none.
func TestRequestsAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools lose what they hold")
	}
	for name, tc := range map[string]struct{ ask, answer []byte }{
		"simple":   {script(query("select abalance from accounts where aid = 4711")), script(pg('C', "SELECT 1\x00"), ready('I'))},
		"extended": {script(parse("", "select 1"), bind(""), execute(), sync0), script(pg('1'), pg('2'), pg('C', "SELECT 1\x00"), ready('I'))},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, up, _ := stage(t, policy(10, 0), postgresgate.Options{}).login()
				buf := make([]byte, 1<<10)
				if n := testing.AllocsPerRun(500, func() {
					_, _ = c.Write(tc.ask)
					_, _ = readFull(up, buf[:len(tc.ask)])
					_, _ = up.Write(tc.answer)
					_, _ = readFull(c, buf[:len(tc.answer)])
				}); n != 0 {
					t.Errorf("%v allocations per request, want none", n)
				}
			})
		})
	}
}
