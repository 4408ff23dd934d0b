package history_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Somebody who was refused by a rate was told about the limit alone, which had
// nothing to do with it.
func TestExplainNamesWhatRefuses(t *testing.T) {
	var book history.Book
	by := limiter.Cause{Reason: labels.RequestRate, Limit: labels.ByIngress}
	begin := time.Unix(1e9, 0)
	for i := range uint64(5) {
		refused := i * 50
		book.Take(begin.Add(time.Duration(i)*time.Second), []history.Reading{{
			Name: "orders",
			Gate: limiter.Status{
				Name: "orders", Bucket: &limiter.BucketStatus{PerSecond: 150},
				Labels: []limiter.LabelStatus{{Label: "default", Counts: limiter.Counts{
					Rejected: map[labels.Reason]uint64{by.Reason: refused}, RejectedBy: map[limiter.Cause]uint64{by: refused},
				}}},
			},
			Partitions: slices.Values([]limiter.Brief{{Name: "default", Limit: 20, Refused: refused, Refusals: byCause{by: refused}}}),
		}})
	}
	e, ok := book.Explain("orders", "default", begin.Add(4*time.Second))
	if want := "/s are refused: request rate, the ingress may take 150/s."; !ok || !strings.HasSuffix(strings.TrimSpace(e.Text), want) {
		t.Errorf("text %q; want it to end with %q", e.Text, want)
	}
}
