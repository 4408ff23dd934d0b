package daemon_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// shadowed is a configuration with a candidate of the given limit.
func shadowed(limit string) string {
	return `
admin: { listen: "127.0.0.1:0" }
ingresses: [{ name: orders, partitions: { default: { limit: { algorithm: fixed, limit: 100 }, queue: { depth: 0 } } } }]
shadow: [{ name: narrow, ingress: orders, partitions: { default: { limit: { limit: ` + limit + ` } } } }]
`
}

// hold takes so many permits at once and ends them, again and again.
func (r *running) hold(rounds, permits int) {
	r.t.Helper()
	g := r.Gate("orders")
	for range rounds {
		held := make([]limiter.Permit, 0, permits)
		for range permits {
			if p, err := g.TryAdmit(g.Now(), limiter.Request{}); err == nil {
				held = append(held, p)
			}
		}
		for i := range held {
			held[i].End(limiter.Success)
		}
	}
}

func (r *running) candidates() []status.Candidate {
	r.t.Helper()
	var doc struct{ Candidates []status.Candidate }
	code, answer := r.ask(http.MethodGet, "/v1/shadow", "")
	if err := json.Unmarshal([]byte(answer), &doc); code != http.StatusOK || err != nil {
		r.t.Fatalf("GET /v1/shadow = %d %s (%v)", code, answer, err)
	}
	return doc.Candidates
}

// A candidate decides on the requests of its ingress and refuses nobody, until
// it is promoted through the door that people use; a reload takes that back.
func TestCandidateOfADaemon(t *testing.T) {
	r := run(t, shadowed("2"))
	var list []status.Candidate
	for range 100 { // the true share is 0.9; a thread that is put aside holds its permits, and has the rest refused
		r.hold(100, 20)
		if list = r.candidates(); len(list) == 1 && list[0].RejectedShare <= 0.95 {
			break
		}
	}
	if len(list) != 1 || list[0].Name != "narrow" || list[0].Ingress != "orders" || list[0].Limit != 2 || list[0].Warming {
		t.Fatalf("candidates = %+v; want narrow with a limit of 2", list)
	}
	if c := list[0]; c.Offered == 0 || c.RejectedShare < 0.3 || c.RejectedShare > 0.95 || c.ForNothingShare < 0.9 || c.EnforcedShare != 0 {
		t.Errorf("the candidate: %+v; want that it would have refused many, for nothing", c)
	}
	for path, want := range map[string]string{
		"/metrics":   `admitd_shadow_rejected_total{candidate="narrow",reason="concurrency_limit"}`,
		"/v1/status": `"shadow":[{"name":"narrow","ingress":"orders"`,
	} {
		if _, answer := r.ask(http.MethodGet, path, ""); !strings.Contains(answer, want) {
			t.Errorf("GET %s has no %s", path, want)
		}
	}
	if limit := r.Gate("orders").Status().Partitions[0].Limit; limit != 100 {
		t.Errorf("the limit in force is %d beside a candidate; want 100", limit)
	}
	if code, answer := r.ask(http.MethodPost, "/v1/shadow/wide/promote", ""); code != http.StatusNotFound {
		t.Errorf("promote of nobody = %d %s; want 404", code, answer)
	}
	code, answer := r.ask(http.MethodPost, "/v1/shadow/narrow/promote", "")
	if code != http.StatusOK || !strings.Contains(answer, `"ingress":"orders"`) || !strings.Contains(answer, `"before"`) {
		t.Fatalf("promote = %d %s", code, answer)
	}
	if limit := r.Gate("orders").Status().Partitions[0].Limit; limit != 2 {
		t.Errorf("the limit in force is %d after the promotion; want 2", limit)
	}
	r.reload(shadowed("3"))
	if s := r.Gate("orders").Status().Partitions[0]; s.Limit != 100 || r.candidates()[0].Limit != 3 {
		t.Errorf("after a reload the limit is %d, the candidate %+v; want 100 and 3", s.Limit, r.candidates())
	}
	r.reload(strings.Split(shadowed("3"), "shadow:")[0])
	if list := r.candidates(); len(list) != 0 {
		t.Errorf("candidates = %+v after they were removed; want none", list)
	}
	r.hold(1, 1)
}

// A promotion is taken back by its ID, once, and not over what somebody changed
// since.
func TestPromotionIsTakenBack(t *testing.T) {
	r := run(t, shadowed("2"))
	limit := func() int { return r.Gate("orders").Status().Partitions[0].Limit }
	promote := func() (id string) {
		t.Helper()
		var p struct{ ID, Undo string }
		code, answer := r.ask(http.MethodPost, "/v1/shadow/narrow/promote", "")
		if err := json.Unmarshal([]byte(answer), &p); code != http.StatusOK || err != nil || p.Undo != "DELETE /v1/shadow/promotions/"+p.ID || limit() != 2 {
			t.Fatalf("promote = %d %s, limit %d (%v)", code, answer, limit(), err)
		}
		return p.ID
	}
	id := promote()
	if code, answer := r.ask(http.MethodDelete, "/v1/shadow/promotions/"+id, ""); code != http.StatusOK || limit() != 100 {
		t.Errorf("demote = %d %s, limit %d; want 100 in force again", code, answer, limit())
	}
	if code, answer := r.ask(http.MethodDelete, "/v1/shadow/promotions/"+id, ""); code != http.StatusNotFound {
		t.Errorf("demote again = %d %s; want 404", code, answer)
	}
	id = promote()
	if code, answer := r.ask(http.MethodPatch, "/v1/ingresses/orders", `{"requests":{"rate":7}}`); code != http.StatusOK {
		t.Fatalf("PATCH = %d %s", code, answer)
	}
	if code, answer := r.ask(http.MethodDelete, "/v1/shadow/promotions/"+id, ""); code != http.StatusConflict || limit() != 2 {
		t.Errorf("demote over a change = %d %s, limit %d; want 409 and 2", code, answer, limit())
	}
}
