package lab_test

import (
	"path/filepath"
	"testing"

	"github.com/admitd/admitd/lab"
)

// Every shipped scenario is valid, says what it is about and judges something.
func TestShippedScenarios(t *testing.T) {
	list, err := lab.Shipped()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("scenarios/*.yaml")
	if err != nil || len(files) != len(list) {
		t.Errorf("%d scenarios are shipped of %d files (%v)", len(list), len(files), err)
	}
	for _, s := range list {
		if len(s.Pass) == 0 {
			t.Errorf("%s has no pass criteria", s.Name)
		}
	}
}
