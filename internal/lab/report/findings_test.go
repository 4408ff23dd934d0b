package report_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/lab/report"
	"github.com/admitd/admitd/internal/lab/scenario"
)

// The findings are written, and name what they are about.
func TestFindings(t *testing.T) {
	for _, name := range scenario.Ours() {
		if !strings.Contains(strings.ToLower(report.Findings()), name) {
			t.Errorf("the findings do not say how %s did", name)
		}
	}
}
