package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A patch is all or nothing: what comes out is a valid configuration that reads
// back as itself, and the one before is never changed.
func FuzzPatch(f *testing.F) {
	f.Add(`{"mode":"off"}`)
	f.Add(`{"requests":{"rate":5,"burstSeconds":2},"partitions":{"default":{"queue":"auto"}}}`)
	f.Add(`{"partitions":{"named":[{"name":"a","limit":{"algorithm":"fixed","limit":3}}]}}`)
	f.Add(`{"partitions":{"default":{"limit":{"minLimit":1e9}}}}`)
	f.Fuzz(func(t *testing.T, patch string) {
		c := mustParse(t, patchable)
		got, err := c.Patch("orders", []byte(patch))
		if diff := cmp.Diff(mustParse(t, patchable), c, cmp.Comparer(samePrefix)); diff != "" {
			t.Fatalf("the patch %q changed what it was laid over:\n%s", patch, diff)
		}
		if err != nil {
			return
		}
		b, err := got.Effective()
		if err != nil {
			t.Fatal(err)
		}
		mustParse(t, string(b))
	})
}
