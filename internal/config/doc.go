// Package config reads, defaults, validates and watches the configuration.
//
// [Parse] turns bytes and environment variables into a [Config], or into
// [Problems]: every fault at once, each with its line. A [Watcher] tells when
// the file has new content. The structs hold numbers and names; they build
// nothing, and this package imports no other room.
//
// Three layers make a configuration: the file, over it the ADMITD_ variables,
// under both the defaults. The defaults, bounds and closed sets of words stand
// in the tags of the structs, and their meaning in the comments; the JSON
// Schema ([Schema]) and docs/config.md are generated from the same source.
//
//	default:"10s"      value of a key that is not written; per:"aimd=100 …"
//	                   overrides it for some values of the selecting key
//	min:"0" max:"1e9"  inclusive bounds; below:"1" is an exclusive upper one
//	enum:"a b"         closed set of words
//	required:"true"    must be written
//	single:"true"      a list that may be written as its only element
//	selects:"true"     the key whose value decides which others belong
//	for:"aimd vegas"   belongs only to these values of the selecting key
package config

//go:generate go run ./gen
