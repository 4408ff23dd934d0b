package baseline_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/baseline"
)

// What is written can be read: keys that JSON makes six times as long, of several
// ingresses, made a file that was called damaged after a restart.
func TestWhatIsWrittenCanBeRead(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := baseline.State{}
	for i := range 6 {
		in := baseline.Ingress{Name: string(rune('a' + i)), Protocol: "http", Backend: "b"}
		for j := range 995 {
			in.Partitions = append(in.Partitions, baseline.Partition{
				Name: strings.Repeat("<", 250) + string(rune(0x4e00+j)), Key: true, Algorithm: "knee", RTTNS: 1, Learned: now, Seen: now,
			})
		}
		st.Ingresses = append(st.Ingresses, in)
	}
	path := filepath.Join(t.TempDir(), "state")
	if err := baseline.Write(path, now, st); err != nil {
		t.Fatal(err)
	}
	got, err := baseline.Read(path, now)
	if err != nil || len(got.Ingresses) != 6 {
		t.Fatalf("Read: %d ingresses, %v", len(got.Ingresses), err)
	}
	for _, in := range got.Ingresses {
		if len(in.Partitions) == 0 || in.Partitions[0].Name != st.Ingresses[0].Partitions[0].Name {
			t.Errorf("%s keeps %d partitions; want the first ones", in.Name, len(in.Partitions))
		}
	}
}
