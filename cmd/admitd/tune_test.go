package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// adminOf answers as the admin port of a daemon with a tuner does.
func adminOf(t *testing.T) string {
	t.Helper()
	record := `{"id":"7","at":"2026-03-04T12:00:00Z","kind":"change","mode":"act","policy":"guard","setting":"orders.requests.rate",` +
		`"why":"signal 1, target 0.8","signals":[{"name":"cpu","value":1,"trusted":true,"ageSeconds":2}],"old":100,"new":90,"wanted":80,` +
		`"bound":"step","otherwise":"it would have stayed at 100","trial":{"state":"kept","test":"nothing got worse","goodputBefore":5,"goodputAfter":6}}`
	answers := map[string]string{
		"GET /v1/tuner": `{"mode":"act","hold":"frozen","signals":[{"name":"cpu","value":1,"trusted":false,"distrust":"stale","detail":"not reached:\n\tthe server","ageSeconds":40}],` +
			`"policies":[{"name":"guard","adjust":"orders.requests.rate","changes":3}],` +
			`"settings":[{"setting":"orders.requests.rate","value":90,"base":null,"policy":"guard","why":"because"}],"records":[` + record + `]}`,
		"GET /v1/tuner/records/7": record,
		"POST /v1/tuner/freeze":   `{"frozen":true}`,
		"POST /v1/tuner/unfreeze": `{"released":true}`,
		"POST /v1/tuner/revert":   `{"reverted":["orders.requests.rate"]}`,
		"POST /v1/tuner/revert/7": `{"reverted":[]}`,
		"GET /v1/shadow": `{"candidates":[{"name":"wider","ingress":"orders","rejectedShare":0.125,"forNothingShare":0.5,"enforcedShare":0.25,` +
			`"p99MS":40,"beyondShare":0.3,"limit":80}]}`,
		"POST /v1/shadow/wider/promote":   `{"id":"p4","ingress":"orders","undo":"DELETE /v1/shadow/promotions/p4"}`,
		"DELETE /v1/shadow/promotions/p4": `{"id":"p4","candidate":"wider","ingress":"orders"}`,
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, found := answers[r.Method+" "+r.URL.Path]
		if !found {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"detail":"no such record"}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTune(t *testing.T) {
	url := adminOf(t)
	for line, want := range map[string][]string{
		"status":         {"mode act, holds still: frozen", "no: stale, not reached: the server\n", "guard", "no bound", "because"},
		"status --json":  {`"mode":"act"`},
		"history":        {"7", "change", "100", "90", "kept"},
		"explain 7":      {"100 → 90", "cpu = 1, 2s old", "by step; it wanted 80", "it would have stayed at 100", "kept: nothing got worse", "5/s → 6/s"},
		"freeze":         {"frozen"},
		"unfreeze":       {"goes on"},
		"unfreeze guard": {"guard is released"},
		"revert":         {"orders.requests.rate"},
		"revert 7":       {"nothing to take back"},
		"candidates":     {"wider", "12.5 %", "50.0 %", "25.0 %", "40ms", "30.0 % of it with more or less in flight than was ever seen"},
		"promote wider":  {"wider is in force on orders until the next reload", "tune demote p4"},
		"demote p4":      {"wider is not in force on orders any more"},
	} {
		var out bytes.Buffer
		if err := run(t.Context(), append([]string{"tune", "--admin", url}, strings.Fields(line)...), streams{&out, io.Discard}); err != nil {
			t.Errorf("tune %s: %v", line, err)
		}
		for _, w := range want {
			if !strings.Contains(out.String(), w) {
				t.Errorf("tune %s printed\n%s; want %q in it", line, out.String(), w)
			}
		}
	}
}

// A refusal ends with 1 and a daemon that cannot be reached with 2.
func TestTuneFails(t *testing.T) {
	for _, tc := range []struct {
		url, verb string
		code      int
	}{{adminOf(t), "explain 8", 1}, {adminOf(t), "promote narrow", 1}, {adminOf(t), "demote p9", 1}, {"http://127.0.0.1:1", "status", 2}, {"::", "status", 2}} {
		err := run(t.Context(), append([]string{"tune", "--admin", tc.url}, strings.Fields(tc.verb)...), streams{io.Discard, io.Discard})
		if code, ok := errors.AsType[exitError](err); !ok || code.code != tc.code {
			t.Errorf("tune %s at %s = %v; want exit code %d", tc.verb, tc.url, err, tc.code)
		}
	}
}
