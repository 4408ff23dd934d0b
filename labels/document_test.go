package labels_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/testkit/golden"
	"github.com/admitd/admitd/labels"
)

// The bytes of every refusal are fixed: clients in other languages parse them.
func TestDocumentGoldenBytes(t *testing.T) {
	for _, reason := range labels.Reasons() {
		t.Run(string(reason), func(t *testing.T) {
			d := labels.New(reason, "orders", "checkout")
			d.Limit = labels.ByPartition
			if reason.Retryable() {
				d.RetryAfterMS, d.BaseBackoffMS = 137, 100
			}
			got := append(d.AppendJSON(nil), '\n')
			golden.Text(t, string(reason)+".golden.json", string(got))
		})
	}
}

// What is written is read back, whatever the names are.
func TestDocumentRoundTrip(t *testing.T) {
	for _, name := range []string{"checkout", `quo"te\`, "new\nline", "tenant-é", "<script>", "\x00\x1f", strings.Repeat("k", 256)} {
		want := labels.New(labels.QueueTimeout, name, name)
		want.RetryAfterMS, want.Limit = 5, labels.ByTotal
		b := want.AppendJSON(nil)
		if !json.Valid(b) {
			t.Fatalf("%q: not JSON: %s", name, b)
		}
		got, err := labels.Parse(b)
		if err != nil {
			t.Fatalf("%q: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", name, diff)
		}
	}
}

func TestParseRefusesWhatIsNotARejection(t *testing.T) {
	for _, in := range []string{
		"", "null", "[]", "{", "<html>", `{"code":503}`, `{"code":462}`,
		`{"code":"462","codeName":"IngressRequestRateLimitExceeded"}`,
		`{"code":462,"codeName":"IngressRequestRateLimitExceeded","x":"` + strings.Repeat("x", labels.MaxDocument) + `"}`,
	} {
		if _, err := labels.Parse([]byte(in)); !errors.Is(err, labels.ErrNotRejection) {
			t.Errorf("Parse(%.40q) = %v; want ErrNotRejection", in, err)
		}
	}
}

// Only an error with both labels may be retried.
func TestBothLabelsAllowARetry(t *testing.T) {
	for _, reason := range labels.Reasons() {
		d := labels.New(reason, "i", "p")
		if got, want := d.RetryableOverload(), reason != labels.CostExceedsBurst; got != want {
			t.Errorf("%s: RetryableOverload = %v; want %v", reason, got, want)
		}
		if !d.HasLabel(labels.SystemOverloaded) {
			t.Errorf("%s lacks %s", reason, labels.SystemOverloaded)
		}
	}
}

func TestReasonsAreClosed(t *testing.T) {
	for i, reason := range labels.Reasons() {
		if reason.Index() != i {
			t.Errorf("%s.Index() = %d; want %d", reason, reason.Index(), i)
		}
	}
	if labels.Reason("other").Index() != -1 {
		t.Error("an unknown reason has an index")
	}
}

func FuzzParse(f *testing.F) {
	d := labels.New(labels.RequestRate, "a", "b")
	f.Add(d.AppendJSON(nil))
	f.Add([]byte(`{"code":462,"codeName":"IngressRequestRateLimitExceeded","errorLabels":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := labels.Parse(b)
		if err != nil {
			if !errors.Is(err, labels.ErrNotRejection) {
				t.Fatalf("err = %v; want ErrNotRejection", err)
			}
			return
		}
		again, err := labels.Parse(d.AppendJSON(nil))
		if err == nil && again.Code != d.Code {
			t.Fatalf("changed in a round trip: %+v, %+v", d, again)
		}
	})
}
