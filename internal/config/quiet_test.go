package config_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// Problems end up in logs, in /readyz and on terminals: they hold no secret and
// no endless key.
func TestProblemsAreQuiet(t *testing.T) {
	for name, text := range map[string]string{
		"headers as text":      "tracing: { headers: geheim }",
		"headers as a list":    "tracing: { headers: [geheim] }",
		"a header's mapping":   "tracing: { headers: { Authorization: { geheim: 1 } } }",
		"endpoint":             "tracing: { endpoint: 'geheim' }",
		"endpoint with a user": "tracing: { endpoint: 'ftp://u:geheim@c' }",
		"an endless key":       "tracing: { " + strings.Repeat("x", 1<<19) + ": 1 }",
	} {
		_, err := config.Parse("test", []byte(text+"\ningresses: [ { name: a } ]"), []string{"ADMITD_TRACING__HEADERS=geheim"})
		if err == nil {
			t.Errorf("%s: no problem", name)
			continue
		}
		if strings.Contains(strings.ReplaceAll(err.Error(), "headers.Authorization.geheim", ""), "geheim") || len(err.Error()) > 4096 {
			t.Errorf("%s: %.600s (%d bytes)", name, err, len(err.Error()))
		}
	}
}

// 010 was 8 without a word.
func TestNumbersThatBeginWithZero(t *testing.T) {
	for text, bad := range map[string]bool{"010": true, "0010": true, "-010": true, "0": false, "0.5": false, "10": false, "0x10": false} {
		_, err := config.Parse("test", []byte("ingresses: [ { name: a, requests: { rate: "+text+" } } ]"), nil)
		if said := err != nil && strings.Contains(err.Error(), "begins with a zero"); said != bad {
			t.Errorf("rate: %s: %v; want a word about the zero: %v", text, err, bad)
		}
	}
}
