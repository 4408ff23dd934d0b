package config

// MongoDB configures what only a MongoDB gate needs.
type MongoDB struct{}

func (v validator) mongodb(_ string, _ *MongoDB) {}
