package config

import (
	_ "embed" // for the schema
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema, draft 2020-12, of the configuration. The
// slice is the caller's.
func Schema() []byte { return slices.Clone(schema) }
