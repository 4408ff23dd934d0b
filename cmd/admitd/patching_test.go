package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// door is the admin port as somebody with a token sees it.
type door struct {
	t     *testing.T
	p     *process
	token string
}

// ask asks, with an If-Match unless it is empty, and returns the answer with its
// ETag.
func (d door) ask(method, path, body, match string) (code int, answer map[string]any, tag string) {
	d.t.Helper()
	r, err := http.NewRequestWithContext(d.t.Context(), method, "http://"+d.p.admin+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+d.token)
	if match != "" {
		r.Header.Set("If-Match", match)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || json.Unmarshal(b, &answer) != nil {
		d.t.Fatalf("%s %s = %s", method, path, b)
	}
	return res.StatusCode, answer, res.Header.Get("ETag")
}

// must is ask that has to be answered with 200.
func (d door) must(method, path, body, match string) (answer map[string]any, tag string) {
	d.t.Helper()
	code, answer, tag := d.ask(method, path, body, match)
	if code != http.StatusOK {
		d.t.Fatalf("%s %s %s = %d %v", method, path, body, code, answer)
	}
	return answer, tag
}

// Two people change one gate at night: neither overwrites what he has not seen,
// an answer is enough to go back, and the log tells who did what.
func TestPatchingTogether(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(tokens, []byte("alice s3cret\nbob hunter2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const content = `
admin: { tokenFile: %s }
ingresses:
  - name: orders
    listen: 127.0.0.1:0
    backend: %s
    requests: { rate: %d }
    partitions: { by: "header:X-Tenant", total: 50, named: [ { name: gold, match: gold, rate: 7 } ] }
`
	b := startBackend(t)
	p := startProcess(t, fmt.Sprintf(content, tokens, b.URL, 100))
	alice, bob := door{t, p, "s3cret"}, door{t, p, "hunter2"}
	const path = "/v1/ingresses/orders"

	first, seen := alice.must("GET", path, "", "")
	if status, tag := alice.must("GET", "/v1/status?ingress=orders", "", ""); seen == "" || tag != seen || first["etag"] != seen ||
		status["ingresses"].([]any)[0].(map[string]any)["etag"] != seen {
		t.Errorf("ETags %s of the settings, %s of the status", seen, tag)
	}
	changed, tag := bob.must("PATCH", path, `{"requests":{"rate":50}}`, seen)
	if code, answer, _ := alice.ask("PATCH", path, `{"requests":{"rate":500}}`, seen); code != http.StatusPreconditionFailed {
		t.Errorf("alice overwrites what bob changed: %d %v", code, answer)
	}
	if code, _, _ := alice.ask("PATCH", path, `{"overrides":{"t-1":{"rate":3}}}`, seen); code != http.StatusPreconditionFailed {
		t.Errorf("with an override: %d; want 412", code)
	}
	for _, nothing := range []string{`{}`, `null`, `{"requests":{"rate":50}}`} {
		if _, same := alice.must("PATCH", path, nothing, tag); same != tag {
			t.Errorf("%s changes the ETag", nothing)
		}
	}
	status, _ := alice.must("GET", "/v1/status?ingress=orders", "", "")
	if marks := status["marks"].([]any); len(marks) != 1 {
		t.Errorf("%d marks in the charts; want one, of the one change: %v", len(marks), marks)
	}
	// The answer's parts are patches, and the answer as a whole is one.
	undo, err := json.Marshal(changed["before"])
	if err != nil {
		t.Fatal(err)
	}
	back, _ := bob.must("PATCH", path, string(undo), "")
	if d := cmp.Diff(first["settings"], back["after"]); d != "" {
		t.Errorf("sent back, what was before is not in force (-want +got):\n%s", d)
	}
	whole, _ := json.Marshal(changed)
	again, _ := bob.must("PATCH", path, string(whole), "")
	if d := cmp.Diff(changed["after"], again["after"]); d != "" {
		t.Errorf("the answer as a whole, sent back (-want +got):\n%s", d)
	}
	over, _ := alice.must("PATCH", path, `{"overrides":{"t-1":{"rate":3,"for":"1h"}}}`, "")
	whole, _ = json.Marshal(over)
	if same, _ := alice.must("PATCH", path, string(whole), ""); same["after"].(map[string]any)["rate"] != 3.0 {
		t.Errorf("an override's answer, sent back: %v", same)
	}
	if _, answer, _ := alice.ask("PATCH", path, `{"requests":{"rates":5}}`, ""); !strings.Contains(fmt.Sprint(answer["problems"]), `did you mean "rate"?`) {
		t.Errorf("a misspelt key is answered %v", answer)
	}

	// In place, so that the watcher waits for the file to be quiet and alice is first.
	if err := os.WriteFile(p.path, fmt.Appendf(nil, content, tokens, b.URL, 80), 0o600); err != nil {
		t.Fatal(err)
	}
	answer, _ := alice.must("POST", "/v1/reload", "", "")
	want := []any{map[string]any{"setting": "ingresses.orders.requests.rate", "before": 50.0, "after": 80.0}}
	if d := cmp.Diff(want, answer["changed"]); d != "" {
		t.Errorf("the reload says that it changed (-want +got):\n%s", d)
	}
	p.said("configuration is in force") // behind the lines that are looked at
	var audit []string
	for _, l := range p.all("setting changed", "") {
		who, _, _ := strings.Cut(l["by"].(string), " (")
		audit = append(audit, fmt.Sprint(who, " ", l["setting"], " ", l["before"], " ", l["after"]))
	}
	const rate = " ingresses.orders.requests.rate "
	if d := cmp.Diff([]string{"bob" + rate + "100 50", "bob" + rate + "50 100", "bob" + rate + "100 50", "alice" + rate + "50 80"}, audit); d != "" {
		t.Errorf("the log says (-want +got):\n%s", d)
	}
	for _, l := range p.all("override set", "") {
		if who, _ := l["by"].(string); !strings.HasPrefix(who, "alice (127.0.0.1:") {
			t.Errorf("the override is by %q; want alice, and her address", who)
		}
	}
	if strings.Contains(fmt.Sprint(p.lines), "s3cret") {
		t.Error("the log tells a token")
	}
}
