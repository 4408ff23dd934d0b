package mongobackend_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/admitd/admitd/internal/testkit/mongobackend"
)

// The tuner of the built binary acts on what a real server says of itself, holds
// still when that server dies while it acts, and goes on when it is back.
func TestTunerLosesItsServer(t *testing.T) {
	dir := t.TempDir()
	b, err := mongobackend.Start(t.Context(), dir, "")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(func() { b.Stop() })
	d := startDaemon(t, b.Addr(), `    requests: { rate: 1000 }
tuner:
  mode: act
  signals:
    - { name: uptime, source: mongodb, url: "mongodb://`+b.Addr()+`/?directConnection=true", command: serverStatus, path: uptimeMillis, every: 1s, timeout: 900ms, maxAge: 3s }
  policies:
    - { name: guard, signal: uptime, above: 1, below: 0, adjust: db.requests.rate, min: 10, max: 1000, step: 0.1, cooldown: 1s }
`)
	type state struct {
		Signals  []struct{ Trusted bool }
		Settings []struct{ Value float64 }
	}
	look := func() (s state) {
		res, err := http.Get("http://" + d.admin + "/v1/tuner")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&s); err != nil || len(s.Signals) != 1 {
			t.Fatalf("GET /v1/tuner: %+v, %v", s, err)
		}
		if len(s.Settings) == 0 { // it has not looked at it yet
			s.Settings = append(s.Settings, struct{ Value float64 }{1000})
		}
		return s
	}
	until(t, "the tuner acts", func() bool { return look().Settings[0].Value < 1000 })
	b.Stop()
	until(t, "the signal is not trusted", func() bool { return !look().Signals[0].Trusted })
	was := look().Settings[0].Value
	if was <= 10 {
		t.Fatal("it had reached its bound before it was blind: nothing is shown")
	}
	if b, err = mongobackend.Start(t.Context(), dir, b.Addr()); err != nil {
		t.Fatalf("Start again: %v", err)
	}
	if now := look().Settings[0].Value; now != was {
		t.Errorf("blind, it moved the rate from %v to %v", was, now)
	}
	until(t, "it sees and goes on", func() bool { s := look(); return s.Signals[0].Trusted && s.Settings[0].Value < was })
}
