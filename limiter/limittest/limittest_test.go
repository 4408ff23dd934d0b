package limittest_test

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/limiter/limittest"
)

// limit is a limit made of parts, so that one part can be broken.
type limit struct {
	name    string
	current atomic.Int64
	observe func(l *limit, latency time.Duration, inFlight int, dropped bool)
}

func (l *limit) Algorithm() string { return l.name }
func (l *limit) Current() int      { return int(l.current.Load()) }
func (l *limit) Observe(_ int64, latency time.Duration, inFlight int, dropped bool) {
	l.observe(l, latency, inFlight, dropped)
}

// sound grows while it is used, up to 30, and halves on a drop.
func sound(l *limit, latency time.Duration, inFlight int, dropped bool) {
	current := l.current.Load()
	switch {
	case dropped:
		l.current.Store(max(1, current/2))
	case latency > 0 && int64(inFlight) >= current:
		l.current.Store(min(30, current+1))
	}
}

// The limits that the suite must refuse, by the subtest that finds them.
var broken = map[string]func(l *limit, latency time.Duration, inFlight int, dropped bool){
	"rests on a steady signal": func(l *limit, _ time.Duration, _ int, _ bool) { l.current.Store(10 + l.current.Load()%7) },
	"shrinks on drops":         func(*limit, time.Duration, int, bool) {},
	"grows back after drops": func(l *limit, _ time.Duration, _ int, dropped bool) {
		if dropped {
			l.current.Store(max(1, l.current.Load()/2))
		}
	},
	"does not grow unused": func(l *limit, latency time.Duration, _ int, dropped bool) { sound(l, latency, 1<<30, dropped) },
	"survives hostile samples": func(l *limit, latency time.Duration, inFlight int, dropped bool) {
		sound(l, latency, inFlight, dropped)
		if latency < 0 {
			l.current.Store(0)
		}
	},
	"allocates nothing": func(l *limit, latency time.Duration, inFlight int, dropped bool) {
		sound(l, latency, inFlight, dropped)
		sink.Store(&latency, inFlight)
	},
}

var sink sync.Map

func run(t *testing.T, name string, observe func(*limit, time.Duration, int, bool)) {
	t.Helper()
	limittest.Run(t, func() limiter.Limit {
		l := &limit{name: name, observe: observe}
		l.current.Store(10)
		return l
	})
}

// A sound limit passes, and so does one that is meant never to move.
func TestAccepts(t *testing.T) {
	t.Run("sound", func(t *testing.T) { run(t, "sound", sound) })
	t.Run("fixed", func(t *testing.T) { run(t, "fixed", func(*limit, time.Duration, int, bool) {}) })
}

// Each way of being broken is found by the subtest that is there for it. The
// failing suite runs in a process of its own.
func TestRefuses(t *testing.T) {
	const variable = "LIMITTEST_BROKEN"
	if name, ok := os.LookupEnv(variable); ok {
		run(t, "broken", broken[name])
		return
	}
	for name := range broken {
		t.Run(name, func(t *testing.T) {
			command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestRefuses$")
			command.Env = append(os.Environ(), variable+"="+name)
			out, err := command.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: TestRefuses/"+strings.ReplaceAll(name, " ", "_")) {
				t.Errorf("a limit broken so that it no longer %s passed (%v):\n%s", name, err, out)
			}
		})
	}
}
