package fleet_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/fleet"
	"github.com/admitd/admitd/limiter"
)

// asGate says that this process is a gate of a live test: its Redis, the rate of
// the group, and its own load.
const asGate = "ADMITD_FLEET_GATE"

func TestMain(m *testing.M) {
	if what := os.Getenv(asGate); what != "" {
		beGate(what)
		return
	}
	m.Run()
}

// beGate asks for tokens at its load and says, ten times a second, at what time
// how many it was given, until its input ends.
func beGate(what string) {
	words := strings.Fields(what)
	rate, _ := strconv.ParseFloat(words[1], 64)
	load, _ := strconv.ParseFloat(words[2], 64)
	bucket := limiter.NewBucket(limiter.Rate{PerSecond: rate, Sharers: 8}, now())
	g, err := fleet.New(fleet.Options{
		Redis: fleet.Redis{Addresses: []string{words[0]}}, Name: "live", Settings: fleet.Settings{Gates: 8}, Now: now,
		Buckets: func(yield func(string, string, *limiter.Bucket) bool) { yield("orders", "orders", bucket) },
	})
	if err != nil {
		panic(err)
	}
	ctx := contextOfStdin()
	go func() { _ = g.Run(ctx) }()
	begun, asked, admitted, said := time.Now(), 0.0, 0, time.Now()
	for ctx.Err() == nil {
		time.Sleep(2 * time.Millisecond)
		for due := time.Since(begun).Seconds() * load; asked < due; asked++ {
			if _, ok := bucket.Take(now(), 1); ok {
				admitted++
			} else {
				bucket.Miss(1)
			}
		}
		if time.Since(said) > 100*time.Millisecond {
			said = time.Now()
			if _, err := fmt.Fprintf(os.Stdout, "%d %d\n", said.UnixMilli(), admitted); err != nil {
				return
			}
		}
	}
}

// live is a group of processes.
type live struct {
	t     *testing.T
	redis *server

	mu    sync.Mutex // guards the fields below
	given [][2][]float64
}

// startLive runs one process per load.
func startLive(t *testing.T, rate float64, loads []float64) *live {
	t.Helper()
	l := &live{t: t, redis: startRedis(t), given: make([][2][]float64, len(loads))}
	for i, load := range loads {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %g %g", asGate, l.redis.addr, rate, load))
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		go func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var at, n float64
				if _, err := fmt.Sscan(lines.Text(), &at, &n); err == nil {
					l.mu.Lock()
					l.given[i][0], l.given[i][1] = append(l.given[i][0], at), append(l.given[i][1], n)
					l.mu.Unlock()
				}
			}
		}()
		t.Cleanup(func() { _ = in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	}
	return l
}

// sum returns the tokens that all processes had been given at a time, in
// milliseconds of the wall clock, between their words by interpolation.
func (l *live) sum(at float64) (sum float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range l.given {
		times, counts := g[0], g[1]
		for i := 1; i < len(times); i++ {
			if times[i] >= at {
				sum += counts[i-1] + (counts[i]-counts[i-1])*(at-times[i-1])/(times[i]-times[i-1])
				break
			}
		}
	}
	return sum
}

// rates returns the tokens per second in windows of the given length that begin
// every tenth of a second.
func (l *live) rates(from, to time.Time, window time.Duration) (least, most float64) {
	least = math.Inf(1)
	for at := from; !at.Add(window).After(to); at = at.Add(100 * time.Millisecond) {
		a, b := float64(at.UnixMilli()), float64(at.Add(window).UnixMilli())
		r := (l.sum(b) - l.sum(a)) / window.Seconds()
		least, most = min(least, r), max(most, r)
	}
	return least, most
}

// Eight processes share 5000 a second through a real Redis: within 1 % over ten
// seconds, evenly loaded and with 60 % at one, and never above 102 % of it while
// Redis is killed and comes back. It measures, so that it runs when asked to:
// ADMITD_BENCH=1.
func TestEightProcesses(t *testing.T) {
	if os.Getenv("ADMITD_BENCH") == "" {
		t.Skip("measures in real time: ADMITD_BENCH=1 runs it")
	}
	const rate = 5000
	for name, first := range map[string]float64{"evenly": 2 * rate / 8, "60 % at one": 1.2 * rate} {
		t.Run(name, func(t *testing.T) {
			loads := make([]float64, 8)
			for i := range loads {
				loads[i] = (2*rate - first) / 7
			}
			loads[0] = first
			l := startLive(t, rate, loads)
			time.Sleep(5 * time.Second)
			begun := time.Now()
			time.Sleep(20 * time.Second)
			calm := time.Now()
			l.redis.kill()
			time.Sleep(6 * time.Second)
			l.redis.start()
			time.Sleep(6 * time.Second)
			ended := time.Now().Add(-300 * time.Millisecond)
			least, most := l.rates(begun, calm, 10*time.Second)
			leastSecond, mostSecond := l.rates(begun, calm, time.Second)
			leastDown, mostDown := l.rates(calm.Add(-time.Second), ended, time.Second)
			t.Logf("ten seconds %.2f to %.2f %%, one second %.1f to %.1f %%; Redis killed and back: one second %.1f to %.1f %%",
				least/50, most/50, leastSecond/50, mostSecond/50, leastDown/50, mostDown/50)
			if least < 0.99*rate || most > 1.01*rate {
				t.Errorf("over ten seconds %.0f to %.0f a second; want %d within 1 %%", least, most, rate)
			}
			if mostDown > 1.02*rate {
				t.Errorf("in the worst second around the end of Redis %.0f; want at most %.0f", mostDown, 1.02*rate)
			}
		})
	}
}
