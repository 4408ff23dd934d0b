package admin_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/limiter"
)

// Several people change a gate at night, each with a token of their own; who does
// not have one of them does not.
func TestTokensOfSeveral(t *testing.T) {
	const text = "# who may\nalice  s3cret\n\nbob hunter2\nplain\n"
	s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{Token: text})
	for token, want := range map[string]int{
		"s3cret": 200, "hunter2": 200, "plain": 200, "alice": 401, "alice s3cret": 401, "who": 401, "": 401, "s3cre": 401,
	} {
		w := call{method: http.MethodPatch, path: "/v1/ingresses/orders", body: `{"mode":"off"}`, header: map[string]string{"Authorization": "Bearer " + token}}.do(t, s)
		if w.Code != want {
			t.Errorf("%q = %d; want %d", token, w.Code, want)
		}
	}
	if err := s.SetToken("alice of wonderland"); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("three words in a line: %v; want that line 1 does not hold", err)
	}
	if w := (call{method: http.MethodPost, path: "/v1/reload"}).do(t, s); w.Code != 401 {
		t.Errorf("after a text that does not hold: %d; want that the tokens stay", w.Code)
	}
}
