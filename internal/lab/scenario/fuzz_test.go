package scenario_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// FuzzParse: whatever a scenario says is refused with a reason, or can be played in
// every variant.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("../scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := scenario.Parse(b)
		if err != nil {
			return
		}
		if s.Backend.Workers < 1 || s.Timeout <= 0 || s.Objective <= 0 || s.Seeds < 1 || s.Seeds > 1000 {
			t.Errorf("%q: %+v", b, s)
		}
		for _, v := range s.Variants {
			if _, ok := s.Variant(v.Name); !ok {
				t.Errorf("%q: there is no variant %q", b, v.Name)
			}
		}
	})
}
