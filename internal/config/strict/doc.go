// Package strict reads configuration text into structs, strictly: a [Report]
// gathers every unknown key, wrong shape and value out of bounds, each with its
// line, instead of the first.
//
// [Report.Layers] puts a YAML document and the environment variables over it
// together, [Report.Decode] completes what comes of it with the defaults that
// stand in the tags of the structs and decodes it, and [Render] writes a struct
// out again. Which keys there are is none of its business; the tags are described
// in package config, which owns the structs.
package strict
