// Package configured reads configurations that tests write down. Nothing that is
// shipped imports it.
package configured

import (
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// From returns the configuration that a text is.
func From(t *testing.T, text string) *config.Config {
	t.Helper()
	cfg, err := config.Parse("test", []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// Ingress returns the first ingress of the configuration that a text is.
func Ingress(t *testing.T, text string) *config.Ingress {
	t.Helper()
	return &From(t, text).Ingresses[0]
}
