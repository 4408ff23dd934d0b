package config_test

import (
	"slices"
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// Limits that add up before one backend are warned of, with the cure; those that are
// bounded together are not.
func TestWarningsOfLimitsThatAddUp(t *testing.T) {
	const (
		keys = ".partitions.share: every key has a limit of its own and nothing bounds all of them together; leave share out or write a total, unless each key has a backend of its own"
		same = `.partitions.share: ingress "b" has the same backend, and the limits of the two add up; leave share out in both`
	)
	for in, want := range map[string][]string{
		"{ name: a, partitions: { by: client, share: own } }":                                                                           {"ingresses[0]" + keys},
		"{ name: a, partitions: { by: client, share: own, total: 50 } }":                                                                nil,
		"{ name: a, partitions: { by: client } }":                                                                                       nil,
		"{ name: a, partitions: { by: client, share: one } }":                                                                           nil,
		"{ name: a, partitions: { share: own } }":                                                                                       nil,
		"{ name: a, protocol: pulsar, listen: ':1', backend: 'pulsar://x', partitions: { share: own } }":                                {"ingresses[0]" + keys},
		"{ name: a, listen: ':1', backend: 'http://X', partitions: { share: own } }, { name: b, listen: ':2', backend: 'http://x:80' }": {"ingresses[0]" + same},
		"{ name: a, listen: ':1', backend: 'http://x', partitions: { share: one } }, { name: b, listen: ':2', backend: 'http://x' }":    {"ingresses[0]" + same},
		"{ name: b, listen: ':2', backend: 'http://x' }, { name: a, listen: ':1', backend: 'http://x', partitions: { by: client, share: own } }": {
			"ingresses[1]" + keys, "ingresses[1]" + same,
		},
		"{ name: a, listen: ':1', backend: 'http://x' }, { name: b, listen: ':2', backend: 'http://x' }":                                nil,
		"{ name: a, listen: ':1', backend: 'http://x', partitions: { share: own } }, { name: b, listen: ':2', backend: 'http://x:81' }": nil,
		"{ name: a, partitions: { share: one } }, { name: b }":                                                                          nil,
	} {
		var got []string
		for _, w := range mustParse(t, "ingresses: [ "+in+" ]").Warnings() {
			got = append(got, w.Path+": "+w.Message)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n got %q\nwant %q", in, got, want)
		}
	}
}

// A rate of 0 is no bound, and is written as unlimited: who writes 0 is warned, whether in
// the file or in a variable.
func TestZeros(t *testing.T) {
	const text = "ingresses: [ { name: a, requests: { rate: 0 }, connections: { rate: unlimited }, partitions: { by: client, default: { rate: 0.0 }, named: [ { name: n, rate: 1 } ] } } ]"
	got := config.Zeros("f", []byte(text), []string{"ADMITD_INGRESSES__0__PARTITIONS__NAMED__0__RATE=0"})
	if want := []string{"ingresses[0].requests.rate", "ingresses[0].partitions.default.rate", "ingresses[0].partitions.named[0].rate"}; !slices.Equal(got, want) {
		t.Errorf("zeros at %q, want %q", got, want)
	}
	if cfg := mustParse(t, text); cfg.Ingresses[0].Connections.Rate != 0 {
		t.Errorf("unlimited is %g", cfg.Ingresses[0].Connections.Rate)
	}
}
