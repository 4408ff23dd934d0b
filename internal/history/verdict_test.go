package history_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// scene is an ingress of which a test makes up what it counts in a second.
type scene struct {
	mode               limiter.Mode
	admitted, answered uint64
	refused            uint64
	by                 limiter.Cause
	would              uint64
	latency            time.Duration
	dead               int // of two backends
	diesAfter          int // seconds in which all is well before; then clients leave too
	fails              uint64
	total              int
	draining           bool
	ungated            int64
}

// play reads the scene once a second, and returns the verdict of the last.
func play(t *testing.T, s scene, seconds int) (v history.Verdict) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		var book history.Book
		health := ingress.NewHealth("db:1", "db:2")
		var sum, tenant limiter.Counts
		sum.RejectedBy = map[limiter.Cause]uint64{}
		was := s
		for i := range seconds {
			if s = was; s.diesAfter > 0 {
				if i < s.diesAfter {
					s.dead = 0
				} else {
					s.admitted, s.answered = 0, 0
				}
			}
			if i > 0 {
				time.Sleep(time.Second)
				sum.Admitted += s.admitted
				sum.Busy += time.Duration(s.answered) * s.latency
				sum.Dropped += s.admitted - s.answered
				sum.RejectedBy[s.by] += s.refused
				sum.Rejected = map[labels.Reason]uint64{s.by.Reason: sum.RejectedBy[s.by]}
				sum.WouldReject = map[labels.Reason]uint64{labels.RequestRate: uint64(i) * s.would}
				tenant = sum
			}
			for n, address := range []string{"db:1", "db:2"} {
				switch b := health.Of(address); {
				case n < s.dead:
					for range max(s.fails, 3) {
						b.Failed(ingress.Unreachable, errors.New("refused"))
					}
				case s.admitted > 0 || s.fails > 0:
					b.Answered()
					for range s.fails {
						b.Failed(ingress.Silent, errors.New("late"))
					}
					b.Answered()
				}
			}
			book.Take(time.Now(), []history.Reading{{
				Name: "orders",
				Gate: limiter.Status{
					Name: "orders", Mode: s.mode, Draining: s.draining, Total: s.total,
					Bucket: &limiter.BucketStatus{PerSecond: 150}, Labels: []limiter.LabelStatus{{Label: "default", Counts: sum}},
				},
				Partitions: slices.Values([]limiter.Brief{
					{Name: "default"},
					{Name: "tenant-5", Key: true, Number: 1, Admitted: tenant.Admitted, Refused: tenant.RejectedBy[s.by], BaseRTT: 10 * time.Millisecond},
				}),
				Backends: health.Status(time.Now()), Ungated: s.ungated,
			}})
		}
		v = book.Verdict("orders", time.Now())
	})
	return v
}

// The sentence never says that all is well when it is not: a dead backend behind
// a gate that admits everything used to read "Everything is admitted: 200/s".
func TestVerdict(t *testing.T) {
	full := limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByTotal}
	for name, tc := range map[string]struct {
		scene
		level history.Level
		want  string
	}{
		"all is well":             {scene{admitted: 200, answered: 200, latency: 12 * time.Millisecond}, history.LevelOK, "Everything is admitted: 200/s. Backend at 12.0 ms, 1.2× its base."},
		"nobody asks":             {scene{}, history.LevelNone, "No traffic at the moment."},
		"nobody that can be seen": {scene{ungated: 40}, history.LevelNone, "No traffic at the moment. 40 connections are encrypted between client and backend: nothing of them is admitted."},
		"the gate off":            {scene{mode: limiter.Off, admitted: 200, answered: 200, latency: 12 * time.Millisecond}, history.LevelOK, "Everything is admitted: 200/s. The gate is off. Backend at 12.0 ms, 1.2× its base."},
		"it takes long":           {scene{mode: limiter.Off, admitted: 200, answered: 200, latency: 694 * time.Millisecond}, history.LevelWarn, "Everything is admitted: 200/s. The gate is off. The backend is slow: 694 ms, 69.4× its base of 10.0 ms."},
		"backend dead":            {scene{admitted: 200, dead: 2}, history.LevelBad, "Backend answers nothing: 100 % of 200/s failed (unreachable) for 9 s."},
		"backend dead, and most are refused": {
			scene{admitted: 20, refused: 180, by: limiter.Cause{Reason: labels.ConcurrencyLimit, Limit: labels.ByPartition}, dead: 2},
			history.LevelBad,
			"Backend answers nothing: 100 % of 20/s failed (unreachable) for 9 s. 180/s more are refused: concurrency limit.",
		},
		"backend dead, and nobody asks": {scene{dead: 2}, history.LevelBad, "Backend answers nothing (unreachable) for 9 s; last asked 0 s ago."},
		// Of what was answered before it died nothing failed: a database that took its
		// connections with it was said to have failed 100 % of what it had answered.
		"backend dead, and all have left": {
			scene{admitted: 200, answered: 200, latency: 12 * time.Millisecond, dead: 2, diesAfter: 8},
			history.LevelBad,
			"Backend answers nothing (unreachable) for 1 s; last asked 0 s ago.",
		},
		"one of two is dead": {
			scene{admitted: 200, answered: 200, latency: 12 * time.Millisecond, dead: 1},
			history.LevelBad,
			"1 of 2 backends answer nothing: db:1 (unreachable, for 9 s). Backend at 12.0 ms, 1.2× its base.",
		},
		"some fail": {
			scene{admitted: 200, answered: 160, latency: 12 * time.Millisecond, fails: 20},
			history.LevelBad,
			"The backend fails: 20 % of 200/s failed (timeout). Backend at 12.0 ms, 1.2× its base.",
		},
		"refused as configured": {
			scene{admitted: 150, answered: 150, refused: 50, by: limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByIngress}, latency: 12 * time.Millisecond},
			history.LevelWarn,
			"Refusing 25 % of 200/s: request rate, the ingress may take 150/s, most for tenant-5 (48/s). Backend at 12.0 ms, 1.2× its base.",
		},
		"the fleet refuses": {
			scene{admitted: 150, answered: 150, refused: 50, by: limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByFleet}, latency: 12 * time.Millisecond},
			history.LevelWarn,
			"Refusing 25 % of 200/s: request rate, shared by the gates of the fleet, most for tenant-5 (48/s). Backend at 12.0 ms, 1.2× its base.",
		},
		"the total binds": {
			scene{admitted: 100, answered: 100, refused: 100, by: full, total: 12, latency: 12 * time.Millisecond},
			history.LevelWarn,
			"Refusing 50 % of 200/s: concurrency limit, the total of 12 permits is used up; most asked for by tenant-5 (95/s refused). Backend at 12.0 ms, 1.2× its base.",
		},
		"shadow":   {scene{mode: limiter.Shadow, admitted: 200, answered: 200, would: 20, latency: 12 * time.Millisecond}, history.LevelWarn, "Shadow mode: would refuse 10 % of 200/s. Backend at 12.0 ms, 1.2× its base."},
		"draining": {scene{draining: true}, history.LevelWarn, "Draining: nothing new is admitted."},
	} {
		t.Run(name, func(t *testing.T) {
			seconds := 10
			if tc.refused > 0 && tc.dead == 0 {
				seconds = 8 // long enough for the smoothed rates of one partition to be known
			}
			got := play(t, tc.scene, seconds)
			if got.Text != tc.want || got.Level != tc.level {
				t.Errorf("verdict %q, %q\nwant    %q, %q", got.Level, got.Text, tc.level, tc.want)
			}
			if got.Level != got.Condition.Level() || got.Told == "" {
				t.Errorf("verdict %+v is not as its condition", got)
			}
		})
	}
}

// Without two readings of late there is no verdict: a page that was just opened,
// and one whose link was lost, both used to say "No traffic at the moment".
func TestNoVerdictWithoutData(t *testing.T) {
	if got := play(t, scene{admitted: 200, answered: 200}, 1); got.Text != "Measuring…" || got.Level != history.LevelNone {
		t.Errorf("after one reading: %+v", got)
	}
	var book history.Book
	now := time.Date(2030, 1, 2, 1, 18, 58, 0, time.UTC)
	if got := book.Verdict("orders", now); got.Condition != history.Measuring {
		t.Errorf("before any: %+v", got)
	}
	for i := range 2 {
		book.Take(now.Add(time.Duration(i-1)*time.Second), []history.Reading{{Name: "orders"}})
	}
	if got := book.Verdict("orders", now.Add(12*time.Second)); got.Text != "Measuring… Last seen 01:18:58, 12 s ago." {
		t.Errorf("when nothing was read for 12 s: %+v", got)
	}
	if got := book.Verdict("orders", now.Add(time.Second)); got.Condition != history.Idle {
		t.Errorf("a second after the second reading: %+v", got)
	}
}

// Red is for callers that fail through nobody's wish, and nothing else.
func TestRedIsForFailures(t *testing.T) {
	for _, c := range history.Conditions() {
		bad := c == history.BackendDown || c == history.BackendsDown || c == history.BackendFails ||
			c == history.BackendSilent || c == history.BackendErrors || c == history.Expired || c == history.NoDescriptors || c == history.FleetClosed
		if (c.Level() == history.LevelBad) != bad {
			t.Errorf("%s has level %q", c, c.Level())
		}
	}
}
