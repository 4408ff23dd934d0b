package pulsargate_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/ingress/pulsargate"
)

func TestPartitionKeys(t *testing.T) {
	for _, tc := range []struct {
		by         pulsargate.By
		topic      string
		full, base string
		key        string
	}{
		{pulsargate.ByTopic, "t", "persistent://public/default/t", "persistent://public/default/t", "persistent://public/default/t"},
		{pulsargate.ByTopic, "a/b/t", "persistent://a/b/t", "persistent://a/b/t", "persistent://a/b/t"},
		{
			pulsargate.ByTopic, "non-persistent://a/b/t-partition-12", "non-persistent://a/b/t-partition-12",
			"non-persistent://a/b/t", "non-persistent://a/b/t-partition-12",
		},
		{pulsargate.ByTopic, "t-partition-x", "persistent://public/default/t-partition-x", "persistent://public/default/t-partition-x", "persistent://public/default/t-partition-x"},
		{pulsargate.ByNamespace, "persistent://a/b/t", "persistent://a/b/t", "persistent://a/b/t", "a/b"},
		{pulsargate.ByTenant, "persistent://a/b/t/with/slashes", "persistent://a/b/t/with/slashes", "persistent://a/b/t/with/slashes", "a"},
		{pulsargate.ByClient, "t", "persistent://public/default/t", "persistent://public/default/t", "10.0.0.7"},
		// A segment of a topic of Pulsar 5 had a bucket of its own.
		{pulsargate.ByTopic, "segment://a/b/t/0000-7fff-1", "persistent://a/b/t", "persistent://a/b/t", "persistent://a/b/t"},
		{pulsargate.ByTopic, "topic://a/b/t", "persistent://a/b/t", "persistent://a/b/t", "persistent://a/b/t"},
		{pulsargate.ByTenant, "segment://a/b", "segment://a/b", "segment://a/b", "a"},
		{pulsargate.ByTenant, "", "persistent://public/default/", "persistent://public/default/", "public"},
	} {
		full, base, key := pulsargate.Key(tc.by, tc.topic, "10.0.0.7:1234")
		if full != tc.full || base != tc.base || key != tc.key {
			t.Errorf("%q: %q, %q, key %q; want %q, %q, %q", tc.topic, full, base, key, tc.full, tc.base, tc.key)
		}
	}
}

func TestBrokerList(t *testing.T) {
	list := []string{"b-1:6650", "*.svc.local:6650", "any.port:*", "[::1]:6650"}
	for address, want := range map[string]bool{
		"b-1:6650": true, "B-1:6650": true, "b-1:6651": false, "b-2:6650": false,
		"x.svc.local:6650": true, "x.y.svc.local:6650": true, "svc.local:6650": false, ".svc.local:6650": false,
		"xsvc.local:6650": false, "any.port:1": true, "[::1]:6650": true, "": false, "b-1": false, ":6650": false,
	} {
		if got := pulsargate.Allows(list, address); got != want {
			t.Errorf("allows(%q) = %v; want %v", address, got, want)
		}
	}
}

// FuzzIdentify: every name of a topic becomes one full form, which stays itself,
// and the parts that identify a partition are parts of it.
func FuzzIdentify(f *testing.F) {
	for _, s := range []string{"t", "a/b/t", "persistent://a/b/t-partition-1", "://", "a://b", "-partition-0", "x-partition-9-partition-9"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		full, base, key := pulsargate.Key(pulsargate.ByTenant, s, "c")
		again, _, _ := pulsargate.Key(pulsargate.ByTenant, full, "c")
		if again != full {
			t.Errorf("%q becomes %q, which becomes %q", s, full, again)
		}
		if !strings.HasPrefix(full, base) || !strings.Contains(full, key) {
			t.Errorf("%q: full %q, base %q, tenant %q", s, full, base, key)
		}
	})
}
