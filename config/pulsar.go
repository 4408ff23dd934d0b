package config

// Pulsar configures what only a Pulsar gate needs.
type Pulsar struct{}

func (v validator) pulsar(_ string, _ *Pulsar) {}
