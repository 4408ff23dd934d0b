package baseline_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/baseline"
)

// FuzzRead: whatever a state file says, with a digest that is right or not, reading
// it ends in one of a few errors or in what may be kept, which is written and read
// as the same.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"saved":"2026-03-01T00:00:00Z","ingresses":[{"name":"a","partitions":[{"name":"p","rttNS":1000,"learned":"2026-03-01T00:00:00Z","seen":"2026-03-01T00:00:00Z"}]}]}`), true)
	f.Add([]byte(`{"saved":"2026-03-01T00:00:00Z","ingresses":[{"partitions":[{"rttNS":-1},{"rttNS":9e18},null]},null]}`), true)
	f.Add([]byte("admitd-state 2 x\n{}"), false)
	f.Add([]byte("root:x:0:0\n"), false)
	now := time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)
	file := filepath.Join(f.TempDir(), "state")
	f.Fuzz(func(t *testing.T, body []byte, sealed bool) {
		if sealed {
			sum := sha256.Sum256(body)
			body = append([]byte("admitd-state 1 "+hex.EncodeToString(sum[:])+"\n"), body...)
		}
		if err := os.WriteFile(file, body, 0o600); err != nil {
			t.Fatal(err)
		}
		st, err := baseline.Read(file, now)
		if err != nil {
			known := false
			for _, e := range []error{baseline.ErrForeign, baseline.ErrVersion, baseline.ErrCorrupt, baseline.ErrStale} {
				known = known || errors.Is(err, e)
			}
			if !known || errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: error %v is none of the known", body, err)
			}
			return
		}
		all := st.Ingresses
		for _, in := range all {
			if len(in.Partitions) > baseline.MaxPartitions {
				t.Errorf("%d partitions are kept", len(in.Partitions))
			}
			for _, p := range in.Partitions {
				if p.RTTNS <= 0 || p.Learned.After(now.Add(time.Hour)) {
					t.Errorf("kept %+v", p)
				}
			}
		}
		if err := baseline.Write(file, now, st); err != nil {
			t.Fatal(err)
		}
		reread, err := baseline.Read(file, now)
		again := reread.Ingresses
		if err != nil || len(again) != len(all) {
			t.Errorf("written and read again: %d of %d ingresses, %v", len(again), len(all), err)
		}
		for i := range min(len(all), len(again)) {
			if len(again[i].Partitions) != len(all[i].Partitions) || again[i].Name != all[i].Name {
				t.Errorf("written and read again: %+v; want %+v", again[i], all[i])
			}
		}
	})
}
