package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/config"
)

// Without a word about it, a limit is a knee and its queue is auto. What stands
// in place of a mapping survives being rendered and read again.
func TestLimitAndQueueByDefault(t *testing.T) {
	c := mustParse(t, `
ingresses:
  - name: jobs
    objective: 100ms
    partitions:
      default: { limit: { algorithm: aimd } }
      named:
        - { name: plain }
        - { name: none, queue: { depth: 0 } }
        - { name: word, queue: auto, limit: { algorithm: aimd, requestTimeout: 7ms } }
`)
	for range 2 {
		p := &c.Ingresses[0].Partitions
		if l := p.Named[0].Limit; l.Algorithm != "knee" || l.InitialLimit != 20 || l.MinLimit != 1 || l.MaxLimit != 10_000 {
			t.Errorf("limit = %+v; want a knee from 1 to 1000 that begins at 20", l)
		}
		for i, want := range []config.Queue{{Auto: true}, {}, {Auto: true}} {
			if got := p.Named[i].Queue; got != want {
				t.Errorf("queue of %s = %+v; want %+v", p.Named[i].Name, got, want)
			}
		}
		if l := p.Default.Limit; time.Duration(l.RequestTimeout) != 80*time.Millisecond || l.InitialLimit != 20 || l.MinLimit != 1 {
			t.Errorf("aimd = %+v; want 20, at least 1, and 0.8 of the objective", l)
		}
		if l := p.Named[2].Limit; time.Duration(l.RequestTimeout) != 7*time.Millisecond {
			t.Errorf("requestTimeout = %v; want the one that is written", time.Duration(l.RequestTimeout))
		}
		b, err := c.Effective()
		if err != nil {
			t.Fatal(err)
		}
		c = mustParse(t, string(b))
	}
	c = mustParse(t, "ingresses: [ { name: jobs, partitions: { default: { limit: { algorithm: aimd } } } } ]")
	if got := time.Duration(c.Ingresses[0].Partitions.Default.Limit.RequestTimeout); got != 200*time.Millisecond {
		t.Errorf("requestTimeout without an objective = %v; want 200ms", got)
	}
	for text, want := range map[string]string{
		"queue: off":             "must be auto or a mapping (off)",
		"queue: { auto: true }":  "unknown key",
		"queue: { depht: 3 }":    `did you mean "depth"?`,
		"queue: { depth: auto }": "must be a whole number",
	} {
		_, err := config.Parse("test", []byte("ingresses: [ { name: jobs, partitions: { default: { "+text+" } } } ]"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
	env := []string{"ADMITD_INGRESSES__0__PARTITIONS__DEFAULT__QUEUE=auto"}
	c, err := config.Parse("test", []byte("ingresses: [ { name: jobs, partitions: { default: { queue: { depth: 3 } } } } ]"), env)
	if err != nil || !c.Ingresses[0].Partitions.Default.Queue.Auto {
		t.Errorf("from the environment: %v; want auto", err)
	}
}
