package lab_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/lab"
	"github.com/admitd/admitd/internal/lab/scenario"
	"github.com/admitd/admitd/limiter"
)

// diary is a door that admits everything and writes down what becomes of its
// permits.
type diary struct {
	w      *lab.World
	leaves bool // its permits hear of callers that leave
	lines  *[]string
}

func (d diary) Enter(r lab.Request, e lab.Entrant) (withdraw func()) {
	if r.Patience > 0 {
		d.note("asked with a patience of " + r.Patience.String())
	}
	end := lab.EndFunc(func(o limiter.Outcome) { d.note(o.String()) })
	if d.leaves {
		e.Admitted(leaver{end, d})
	} else {
		e.Admitted(end)
	}
	return nil
}

func (diary) Limit() int { return 0 }

func (d diary) note(what string) {
	*d.lines = append(*d.lines, fmt.Sprintf("%v %s", time.Duration(d.w.Now()), what))
}

type leaver struct {
	lab.EndFunc
	d diary
}

func (l leaver) Leave() { l.d.note("left") }

// onlyVariant parses a scenario of one variant.
func onlyVariant(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	v, ok := s.Variant(s.Variants[0].Name)
	if !ok {
		t.Fatal("no variant")
	}
	return v
}

// three requests arrive at one second before a worker that takes 100 ms.
const three = `
name: three
about: Three at once.
for: 5s
timeout: 150ms
backend: { workers: 1, service: { kind: constant, mean: 100ms }CANCELLED }
load: [{ at: 0s, load: 0 }]
bursts: [{ at: 1s, requests: 3 }]
windows: [{ name: all, from: 0s, to: 5s }]
`

// A permit stands for work at the backend. The lab once ended it as dropped when
// the caller gave up, which no gate does, and so hid that callers who leave blind
// the limits.
func TestCallersLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		backend, more string
		leaves        bool
		want          []string
		wasted        int
	}{
		"the gate finishes": {
			leaves: true, wasted: 2,
			want: []string{"1.1s success", "1.15s left", "1.15s left", "1.2s success", "1.3s success"},
		},
		"the gate knows no leaving": {
			wasted: 2,
			want:   []string{"1.1s success", "1.15s ignored", "1.15s ignored"},
		},
		"the gate cancels, the backend stops": {
			backend: ", cancelled: stops", leaves: true,
			want: []string{"1.1s success", "1.15s left", "1.15s ignored", "1.15s left", "1.15s ignored"},
		},
		"the gate cancels, the backend does not stop": {
			more: "abandon: cancel\n", leaves: true, wasted: 2,
			want: []string{"1.1s success", "1.15s left", "1.15s ignored", "1.15s left", "1.15s ignored"},
		},
		"the gate gives the backend up later": {
			more: "backendTimeout: 250ms\n", leaves: true, wasted: 2,
			want: []string{"1.1s success", "1.15s left", "1.15s left", "1.2s success", "1.25s dropped"},
		},
		"the gate gives the backend up first": {
			more: "backendTimeout: 120ms\n", leaves: true, wasted: 2,
			want: []string{"1.1s success", "1.12s dropped", "1.12s dropped"},
		},
		"processors are shared": {
			backend: ", discipline: sharing", leaves: true, wasted: 3,
			want: []string{"1.15s left", "1.15s left", "1.15s left", "1.3s success", "1.3s success", "1.3s success"},
		},
		"the backend's queue is left": {
			backend: ", queueTimeout: 120ms", leaves: true, wasted: 1,
			want: []string{"1.1s success", "1.12s dropped", "1.15s left", "1.2s success"},
		},
		"one place in the backend's queue": {
			backend: ", queue: 1", leaves: true, wasted: 1,
			want: []string{"1s dropped", "1.1s success", "1.15s left", "1.2s success"},
		},
		"clients tell": {
			more: "clients: { tellDeadline: true, patience: { least: 90ms, most: 90ms } }\n", leaves: true, wasted: 3,
			want: []string{
				"1s asked with a patience of 90ms", "1s asked with a patience of 90ms", "1s asked with a patience of 90ms",
				"1.09s left", "1.09s left", "1.09s left", "1.1s success", "1.2s success", "1.3s success",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := onlyVariant(t, strings.Replace(three, "CANCELLED", tc.backend, 1)+tc.more)
			var lines []string
			c := lab.Contender{Name: "diary", New: func(w *lab.World) lab.Door { return diary{w, tc.leaves, &lines} }}
			r, err := lab.Play(s, c, 1, lab.PlayOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, lines); diff != "" {
				t.Errorf("permits (-want +got):\n%s", diff)
			}
			if w := r.Windows[0]; w.Wasted != tc.wasted || w.Offered != 3 || w.Answered+w.Failed != 3 {
				t.Errorf("%d wasted of %d offered, %d answered and %d failed; want %d wasted of 3", w.Wasted, w.Offered, w.Answered, w.Failed, tc.wasted)
			}
		})
	}
}

// Who leaves the gate's queue is not served: with one permit and places for all,
// those who wait for longer than their patience never reach the backend.
func TestCallersLeaveTheQueue(t *testing.T) {
	s := onlyVariant(t, strings.Replace(three, "CANCELLED", "", 1))
	for _, told := range []bool{false, true} {
		s.Clients.TellDeadline = told
		c := lab.Gated("queue", func(*lab.World) *limiter.Policy {
			return &limiter.Policy{Default: limiter.PartitionPolicy{
				NewLimit: func() limiter.Limit {
					l, err := algorithms.New(algorithms.Settings{Keys: algorithms.Keys{Limit: 1}})
					if err != nil {
						t.Error(err)
					}
					return l
				},
				QueueDepth: 10, MaxWait: time.Second,
			}}
		})
		r, err := lab.Play(s, c, 1, lab.PlayOptions{})
		if err != nil {
			t.Fatal(err)
		}
		// The second is admitted after 100 ms and would be answered after 200.
		w := r.Windows[0]
		if w.Answered != 1 || w.Wasted != 1 || r.Leaked != 0 {
			t.Errorf("told %v: %d answered, %d wasted, %d leaked; want 1, 1, 0", told, w.Answered, w.Wasted, r.Leaked)
		}
		if told && w.Refused+w.Failed != 2 {
			t.Errorf("%d refused and %d failed; want 2 together", w.Refused, w.Failed)
		}
	}
}
