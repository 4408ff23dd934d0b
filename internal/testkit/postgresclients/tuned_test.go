package postgresclients_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"
)

// The tuner acts on what a real server answers and on the load of the host,
// holds still for what it cannot read when the server is stopped while it acts,
// and goes on when it is back; the host's signal is not held up by the other.
func TestTunerLosesItsServer(t *testing.T) {
	c := start(t)
	c.tuner = fmt.Sprintf(`, "tuner": {"mode": "act", "signals": [
		{"name": "sessions", "source": "postgres", "url": "postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", "query": "select 5", "every": "1s", "timeout": "900ms", "maxAge": "3s"},
		{"name": "cpu", "source": "host", "metric": "cpu", "every": "1s", "maxAge": "3s"}],
		"policies": [
		{"name": "guard", "signal": "sessions", "above": 1, "below": 0, "adjust": "pg.requests.rate", "min": 10, "max": 1000, "step": 0.1, "cooldown": "1s"},
		{"name": "hot", "signal": "cpu", "above": 2, "below": 1.5, "adjust": "pg.connections.maxOpen", "min": 10, "max": 1000, "step": 0.1}]}`, c.port)
	g := c.before(t, `, "requests": {"rate": 1000}`)
	type state struct {
		Signals []struct {
			Name    string
			Trusted bool
		}
		Settings []struct{ Value float64 }
	}
	look := func() (s state) {
		t.Helper()
		res, err := http.Get("http://" + g.admin + "/v1/tuner")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&s); err != nil || len(s.Signals) != 2 {
			t.Fatalf("GET /v1/tuner: %+v, %v", s, err)
		}
		return s
	}
	await := func(what string, is func(state) bool) state {
		t.Helper()
		for range 400 {
			if s := look(); len(s.Settings) == 2 && is(s) { // before the tuner has looked there are none
				return s
			}
			time.Sleep(50 * time.Millisecond)
		}
		t.Fatalf("waited in vain until %s: %+v", what, look())
		return state{}
	}
	await("it acts", func(s state) bool { return s.Settings[0].Value < 1000 && s.Signals[1].Trusted })
	c.ctl("stop", "-m", "immediate")
	was := await("it is blind", func(s state) bool { return !s.Signals[0].Trusted })
	time.Sleep(2 * time.Second)
	switch now := look(); {
	case was.Settings[0].Value <= 10:
		t.Fatal("it had reached its bound before it was blind: nothing is shown")
	case now.Settings[0].Value != was.Settings[0].Value:
		t.Errorf("blind, it moved the rate from %v to %v", was.Settings[0].Value, now.Settings[0].Value)
	case !now.Signals[1].Trusted:
		t.Error("the host's signal is not trusted because the server is away")
	}
	c.up()
	await("it sees and goes on", func(s state) bool { return s.Signals[0].Trusted && s.Settings[0].Value < was.Settings[0].Value })
}
