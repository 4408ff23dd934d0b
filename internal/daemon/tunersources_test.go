package daemon_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon/tunersetup"
)

// Signals of one endpoint, read at one pace, share what is fetched.
func TestSignalsShareAnEndpoint(t *testing.T) {
	var fetched atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fetched.Add(1)
		_, _ = io.WriteString(w, "a 1\nb 2\n")
	}))
	t.Cleanup(server.Close)
	section := config.Tuner{Mode: "advise"}
	for i, metric := range []string{"a", "b", "a"} {
		section.Signals = append(section.Signals, config.TunerSignal{
			Name: strconv.Itoa(i), Source: "scrape", URL: server.URL, Metric: metric, Every: config.Duration(time.Hour), Timeout: config.Duration(time.Minute),
		})
	}
	section.Signals[2].Every = config.Duration(time.Minute)
	o, err := tunersetup.Options(&section)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{1, 2, 1} {
		if got, _, err := o.Signals[i].Source.Read(t.Context()); got != want || err != nil {
			t.Errorf("signal %d = %v, %v; want %v", i, got, err, want)
		}
	}
	if n := fetched.Load(); n != 2 {
		t.Errorf("fetched %d times; want once for the two of one pace, and once for the other", n)
	}
}

// Every source that speaks HTTP dies in its turn while the tuner acts on it: its
// policy holds still, the others go on, and when it is back so does its own.
func TestEverySourceDies(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	sources := []struct {
		name, config, setting string
		answer                func() string
		server                *httptest.Server
	}{
		{name: "http", config: `source: http, path: lag`, setting: "orders.requests.rate", answer: func() string { return `{"lag": 20}` }},
		{name: "scrape", config: `source: scrape, metric: lag`, setting: "orders.connections.maxOpen", answer: func() string { return "# TYPE lag gauge\nlag 20\n" }},
		{name: "prometheus", config: `source: prometheus, query: lag`, setting: "orders.partitions.default.limit.limit", answer: func() string {
			return fmt.Sprintf(`{"status":"success","data":{"resultType":"scalar","result":[%d.5,"20"]}}`, time.Now().Unix())
		}},
	}
	signals, policies := "", ""
	for i := range sources {
		s := &sources[i]
		s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, s.answer()) }))
		t.Cleanup(s.server.Close)
		signals += fmt.Sprintf("    - { name: %s, %s, url: %q, every: 1s, timeout: 500ms, maxAge: 2s }\n", s.name, s.config, s.server.URL)
		policies += fmt.Sprintf("    - { name: %s, signal: %s, above: 10, below: 3, adjust: %s, min: 1, max: 100000, step: 0.01, cooldown: 1s }\n", s.name, s.name, s.setting)
	}
	r := run(t, `
admin: { listen: "127.0.0.1:0" }
tuner:
  mode: act
  signals:
`+signals+"  policies:\n"+policies+`
ingresses: [{ name: orders, requests: { rate: 100000 }, connections: { maxOpen: 100000 }, partitions: { default: { limit: { algorithm: fixed, limit: 10000 } } } }]
`)
	type state struct {
		Policies []struct {
			Name, Held string
			Changes    int
		}
		Settings []struct {
			Setting string
			Value   float64
		}
	}
	look := func() (s state, values map[string]float64, held map[string]bool) {
		t.Helper()
		_, answer := r.ask(http.MethodGet, "/v1/tuner", "")
		if err := json.Unmarshal([]byte(answer), &s); err != nil {
			t.Fatal(err)
		}
		values, held = map[string]float64{}, map[string]bool{}
		for _, v := range s.Settings {
			values[v.Setting] = v.Value
		}
		for _, p := range s.Policies {
			held[p.Name] = p.Held != ""
		}
		return s, values, held
	}
	await := func(what string, is func(values map[string]float64, held map[string]bool) bool) map[string]float64 {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if _, values, held := look(); is(values, held) {
				return values
			}
		}
		s, _, _ := look()
		t.Fatalf("waited in vain until %s: %+v", what, s)
		return nil
	}
	below := func(was map[string]float64, but string) func(map[string]float64, map[string]bool) bool {
		return func(values map[string]float64, _ map[string]bool) bool {
			for _, s := range sources {
				if s.setting != but && values[s.setting] >= was[s.setting] {
					return false
				}
			}
			return true
		}
	}
	first := await("the tuner has looked", func(values map[string]float64, _ map[string]bool) bool { return len(values) == len(sources) })
	await("all act", below(first, ""))
	for i := range sources {
		s := &sources[i]
		address := s.server.Listener.Addr().String()
		s.server.CloseClientConnections()
		s.server.Close()
		blind := await(s.name+" is held", func(_ map[string]float64, held map[string]bool) bool { return held[s.name] })
		now := await("the others go on without "+s.name, below(blind, s.setting))
		if now[s.setting] != blind[s.setting] {
			t.Errorf("without %s its setting moved from %v to %v", s.name, blind[s.setting], now[s.setting])
		}
		s.server = r.revive(address, s.answer)
		await(s.name+" acts again", below(now, ""))
	}
}

// revive serves at an address again.
func (r *running) revive(address string, answer func() string) *httptest.Server {
	r.t.Helper()
	again := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer()) }))
	_ = again.Listener.Close()
	var err error
	if again.Listener, err = listenAt(r.t, address); err != nil {
		r.t.Fatal(err)
	}
	again.Start()
	r.t.Cleanup(again.Close)
	return again
}

func listenAt(t *testing.T, address string) (net.Listener, error) {
	t.Helper()
	return new(net.ListenConfig).Listen(t.Context(), "tcp", address)
}

// lagging returns a source of a signal that is above what policies take for good.
func lagging(t *testing.T) *httptest.Server {
	t.Helper()
	lag := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"lag": 20}`) }))
	t.Cleanup(lag.Close)
	return lag
}

// A policy that may stops the gate from refusing, and leaves it so.
func TestTunerMovesTheMode(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	lag := lagging(t)
	r := run(t, fmt.Sprintf(`
admin: { listen: "127.0.0.1:0" }
tuner:
  mode: act
  signals: [{ name: lag, source: http, url: %q, path: lag, every: 1s, timeout: 500ms }]
  policies: [{ name: last-resort, signal: lag, above: 10, below: 3, adjust: orders.mode, allowMode: true, min: 1, max: 2, step: 0.5, cooldown: 1s }]
ingresses: [{ name: orders, requests: { rate: 100 } }]
`, lag.URL))
	r.await("in shadow mode", func(s tunerState) bool { return len(s.Settings) == 1 && s.Settings[0].Value == 1 })
	if _, answer := r.ask(http.MethodGet, "/v1/status", ""); !strings.Contains(answer, `"mode":"shadow"`) {
		t.Errorf("the status does not say that the gate refuses nobody: %s", answer)
	}
}

// The daemon tells settings with named partitions by name, and the tuner looked
// for a list of them: no policy found a named partition, and * stood for the
// default one alone.
func TestTunerMovesNamedPartitions(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds of real time")
	}
	lag := lagging(t)
	r := run(t, fmt.Sprintf(`
admin: { listen: "127.0.0.1:0" }
tuner:
  mode: act
  signals: [{ name: lag, source: http, url: %q, path: lag, every: 1s, timeout: 500ms }]
  policies:
    - { name: one, signal: lag, above: 10, below: 3, adjust: orders.partitions.check.out.rate, min: 50, max: 100, step: 0.5, cooldown: 1s }
    - { name: all, signal: lag, above: 10, below: 3, adjust: "orders.partitions.*.limit.maxLimit", min: 10, max: 100, step: 0.5, cooldown: 1s }
  trial: { canary: false }
ingresses:
  - name: orders
    partitions:
      default: { limit: { maxLimit: 20 } }
      named: [{ name: check.out, rate: 100, limit: { maxLimit: 20 } }, { name: bulk, limit: { algorithm: fixed, limit: 5 } }]
`, lag.URL))
	r.await("lowered everywhere", func(s tunerState) bool {
		return len(s.Settings) == 3 && s.Settings[0].Value == 50 && s.Settings[1].Value == 10 && s.Settings[2].Value == 10
	})
	if _, answer := r.ask(http.MethodGet, "/v1/ingresses/orders", ""); strings.Count(answer, `"maxLimit":10,`) != 2 || !strings.Contains(answer, `"rate":50`) {
		t.Errorf("the settings do not show what the tuner set: %s", answer)
	}
}
