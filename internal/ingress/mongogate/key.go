package mongogate

import (
	"fmt"
	"hash/maphash"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress"
)

// keyPartMax bounds each part of a partition key, in bytes: keys are kept, and
// what clients send may be long. Servers accept no longer names.
const keyPartMax = 255

// part appends one part of a partition key.
type part func(b []byte, f *facts, who *peer) []byte

// parseParts reads [Options.PartitionBy].
func parseParts(by []string) ([]part, error) {
	var parts []part
	for _, name := range by {
		p, ok := simpleParts()[name]
		if !ok {
			var err error
			if p, err = clientPart(name); err != nil {
				return nil, err
			}
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// simpleParts are the parts that take no argument.
func simpleParts() map[string]part {
	return map[string]part{
		"database": func(b []byte, f *facts, _ *peer) []byte { return append(b, f.db...) },
		"collection": func(b []byte, f *facts, _ *peer) []byte {
			if len(f.coll) == 0 {
				return append(b, f.db...)
			}
			return append(append(append(b, f.db...), '.'), f.coll...)
		},
		"command":        func(b []byte, f *facts, _ *peer) []byte { return append(b, f.name...) },
		"application":    func(b []byte, _ *facts, who *peer) []byte { return append(b, who.application...) },
		"driver":         func(b []byte, _ *facts, who *peer) []byte { return append(b, who.driver...) },
		"user":           func(b []byte, _ *facts, who *peer) []byte { return append(b, who.user...) },
		"client":         func(b []byte, _ *facts, who *peer) []byte { return who.remote.AppendTo(b) },
		"readPreference": func(b []byte, f *facts, _ *peer) []byte { return append(b, f.readPref...) },
		"comment": func(b []byte, f *facts, _ *peer) []byte {
			return append(b, f.comment[:min(len(f.comment), maxName)]...)
		},
	}
}

// clientPart reads client:BITS.
func clientPart(name string) (part, error) {
	bits, ok := ingress.NetworkBits(name)
	if !ok {
		return nil, fmt.Errorf("mongogate: partition by %q: want database, collection, command, application, driver, "+
			"user, client, client:1..32, readPreference or comment", name)
	}
	return func(b []byte, _ *facts, who *peer) []byte { return ingress.AppendNetwork(b, who.remote, bits) }, nil
}

// partition builds the partition key of a command, in scratch.
func (s *settings) partition(f *facts, who *peer, scratch *[]byte) []byte {
	b := (*scratch)[:0]
	for i, p := range s.parts {
		if i > 0 {
			b = append(b, '/')
		}
		start := len(b)
		b = p(b, f, who)
		b = b[:min(len(b), start+keyPartMax)]
	}
	*scratch = b
	return b
}

// interned is how many keys have a place, a power of two.
const interned = 1 << 14

// interner turns repeated bytes into strings without allocating: each key has a place
// by its hash, and whoever came last keeps it. Keys that clients make up cost as much
// as others, and push others out of a place each for a moment.
type interner struct {
	seed   maphash.Seed
	places []atomic.Pointer[string]
}

func newInterner() interner {
	return interner{seed: maphash.MakeSeed(), places: make([]atomic.Pointer[string], interned)}
}

// get returns b as a string.
func (i *interner) get(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	place := &i.places[maphash.Bytes(i.seed, b)%interned]
	if s := place.Load(); s != nil && *s == string(b) {
		return *s
	}
	s := string(b)
	place.Store(&s)
	return s
}
