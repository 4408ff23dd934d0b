package roundtrip_test

import (
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/roundtrip"
	"github.com/admitd/admitd/limiter"
)

// deaf is a client that takes nothing. It notes when writing to it was made to fail.
type deaf struct {
	*httptest.ResponseRecorder
	failed time.Time
}

// SetWriteDeadline is what the response controller calls.
func (d *deaf) SetWriteDeadline(time.Time) error {
	d.failed = time.Now()
	return nil
}

// four is a limit.
type four struct{}

func (four) Current() int                            { return 4 }
func (four) Observe(int64, time.Duration, int, bool) {}

// One connection whose client took nothing held all permits of a partition for
// http.bodyGrace, 20 s, and everybody else was refused. While others are, more than
// half of a limit is given up after a second, and the rest after five.
func TestStalledAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		stalled int
		refused time.Duration // when others are; 0 = never
		want    []time.Duration
	}{
		"nobody is refused":       {stalled: 4},
		"all of the limit":        {stalled: 4, refused: 1500 * time.Millisecond, want: []time.Duration{2 * time.Second, 2 * time.Second, 5 * time.Second, 5 * time.Second}},
		"half of it":              {stalled: 2, refused: 1500 * time.Millisecond, want: []time.Duration{5 * time.Second, 5 * time.Second}},
		"refused before they are": {stalled: 2, refused: time.Millisecond},
		"refused late":            {stalled: 2, refused: 7500 * time.Millisecond, want: []time.Duration{8 * time.Second, 8 * time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				gate := limiter.New("orders", &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return four{} }}}, limiter.Options{})
				began := time.Now()
				var permits [4]limiter.Permit
				for i := range permits {
					permits[i], _ = gate.TryAdmit(gate.Now(), limiter.Request{})
				}
				clients := make([]*deaf, tc.stalled)
				ends := make([]func() bool, tc.stalled)
				for i := range clients {
					clients[i] = &deaf{ResponseRecorder: httptest.NewRecorder()}
					ends[i] = roundtrip.WatchStall(clients[i], &permits[i])
				}
				if tc.refused > 0 {
					time.Sleep(tc.refused)
					if _, err := gate.TryAdmit(gate.Now(), limiter.Request{}); err == nil {
						t.Fatal("a fifth was admitted")
					}
				}
				time.Sleep(10 * time.Second)
				var got []time.Duration
				for i, c := range clients {
					cut := ends[i]()
					if cut != !c.failed.IsZero() {
						t.Errorf("end() = %v; the write was made to fail: %v", cut, !cut)
					}
					if cut {
						got = append(got, c.failed.Sub(began))
					}
				}
				slices.Sort(got)
				if !slices.Equal(got, tc.want) {
					t.Errorf("writes were made to fail after %v, want %v", got, tc.want)
				}
				for i := range permits {
					permits[i].End(limiter.Ignored)
				}
			})
		})
	}
}
