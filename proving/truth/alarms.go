package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// alarms are phases that last for the whole run, at a low rate: each has to raise its
// alerts, and the phases on which all is well none.
func alarms(dir string) []*phase {
	certificate := fmt.Sprintf("tls: { certFile: %q, keyFile: %q }", filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	few := []stream{{rate: 8}}
	return []*phase{
		{name: "alarm-refused", ingress: "requests: { rate: 4 }", streams: few, alerts: []string{"AdmitdRejectionsSustained"}},
		{name: "alarm-errors", serve: answers(500, 10*ms), streams: few, alerts: []string{"AdmitdBackendErrors"}},
		{name: "alarm-dead", streams: few, alerts: []string{"AdmitdBackendFailing"}, during: func(_ context.Context, p *play) error { p.backend.close(); return nil }},
		{name: "alarm-left", serve: takes(300 * ms), streams: []stream{{rate: 8, patience: 100 * ms}}, alerts: []string{"AdmitdCallersLeave"}},
		{name: "alarm-invalid", ingress: "maxBodyBytes: 1000", streams: []stream{{rate: 4}, {rate: 4, method: http.MethodPost, body: 2000}}, alerts: []string{"AdmitdInvalidRequests"}},
		{
			name: "alarm-retries", streams: []stream{{rate: 4, header: map[string]string{"X-Envoy-Attempt-Count": "1"}}, {rate: 4, header: map[string]string{"X-Envoy-Attempt-Count": "2"}}},
			alerts: []string{"AdmitdRetryStorm"},
		},
		{name: "alarm-exempt", ingress: "requests: { exempt: { operations: [\"GET /\"] } }", streams: few, alerts: []string{"AdmitdExemptMany"}},
		{name: "alarm-overflow", ingress: "partitions: { by: \"header:X-Tenant\", max: 2 }", streams: []stream{{rate: 8, tenants: tenants(8)}}, alerts: []string{"AdmitdPartitionOverflow"}},
		{
			name: "alarm-full", serve: takes(400 * ms), ingress: "partitions: { total: 2, default: { limit: { algorithm: fixed, limit: 2 }, queue: { depth: 20, maxWait: 2s } } }",
			streams: few, alerts: []string{"AdmitdGateSaturated"},
		},
		{
			name: "alarm-slow", serve: later(40*time.Second, narrow(4, 20*ms), narrow(1, 250*ms)), streams: []stream{{rate: 12}},
			alerts: []string{"AdmitdBackendSlow"},
		},
		{
			name: "alarm-maximum", serve: takes(time.Second), ingress: "partitions: { default: { limit: { algorithm: aimd, requestTimeout: 5s, maxLimit: 22 }, queue: { depth: 20, maxWait: 2s } } }",
			// Prometheus has to have seen the limit below its maximum.
			streams: []stream{{rate: 30, after: 12 * time.Second}}, alerts: []string{"AdmitdLimitAtMaximum"},
		},
		{
			name: "alarm-minimum", serve: takes(200 * ms), ingress: "partitions: { default: { limit: { algorithm: aimd, requestTimeout: 50ms, initialLimit: 3 }, queue: { depth: 0 } } }",
			streams: []stream{{rate: 12, after: 12 * time.Second}}, alerts: []string{"AdmitdLimitAtMinimum"},
		},
		{name: "alarm-certificate", ingress: certificate, alerts: []string{"AdmitdCertificateExpires"}},
	}
}

// later answers one way for so long, and another way then.
func later(d time.Duration, before, after behaviour) behaviour {
	return func(w http.ResponseWriter, r *http.Request, since time.Duration, n int) int {
		if since < d {
			return before(w, r, since, n)
		}
		return after(w, r, since, n)
	}
}

// notPlayed are the alerts that nothing here raises.
var notPlayed = map[string]string{
	"AdmitdBackendSlowLimitFalling": "needs a limit that falls for as long as the median is high; the rules' own tests have it",
	"AdmitdClockNotTrusted":         "needs a clock that stands still; the ground faults has one",
	"AdmitdFleetFilesDiffer":        "needs a group on Redis; the rules' own tests have it",
	"AdmitdFleetPartly":             "needs a group on Redis; the rules' own tests have it",
	"AdmitdGateDelayed":             "needs a machine without a processor to spare, and is no falsehood on one",
	"AdmitdGateSlow":                "needs a gate that takes 10 ms, and is no falsehood on a busy machine",
	"AdmitdOpaqueConnections":       "needs PostgreSQL clients that encrypt past the gate",
	"AdmitdTunerReverted":           "needs a tuner that has changed something",
}

// troubled is a gate of its own, to which happens what befalls a whole process.
type troubled struct {
	gate    *gate
	listen  string
	held    []net.Conn
	expects []string
}

// newTroubled starts a gate with few file descriptors, without its group, with a
// signal that nobody answers, and takes the directory of its state away.
func newTroubled(ctx context.Context, binary, dir string) (*troubled, error) {
	own := filepath.Join(dir, "troubled")
	if err := os.MkdirAll(filepath.Join(own, "state"), 0o700); err != nil {
		return nil, err
	}
	few := filepath.Join(own, "admitd")
	if err := os.WriteFile(few, []byte("#!/bin/sh\nulimit -n 100\nexec \""+binary+"\" \"$@\"\n"), 0o700); err != nil {
		return nil, err
	}
	nobody := freePort()
	t := &troubled{listen: freePort(), expects: []string{"AdmitdFleetAlone", "AdmitdTunerBlind", "AdmitdStateNotWritten", "AdmitdOutOfDescriptors", "AdmitdReloadFailing", "AdmitdTargetDown"}}
	t.gate = newGate(few, own, fmt.Sprintf("stateFile: %q\nfleet: { redis: { addresses: [%q] } }\n"+
		"tuner: { signals: [ { name: lag, source: prometheus, url: \"http://%s\", query: up } ] }", filepath.Join(own, "state", "state"), nobody, nobody))
	t.gate.add("troubled", fmt.Sprintf("protocol: http, listen: %q, backend: \"http://%s\", requests: { rate: 1000, shared: true }", t.listen, nobody))
	if err := t.gate.start(ctx); err != nil {
		return nil, err
	}
	if err := os.RemoveAll(filepath.Join(own, "state")); err != nil {
		return nil, err
	}
	t.gate.add("broken", "protocol: none")
	if err := t.gate.reload(ctx); err == nil {
		return nil, fmt.Errorf("a configuration that is not valid was taken")
	}
	return t, nil
}

// run opens connections until ctx is done, more than there are descriptors for.
func (t *troubled) run(ctx context.Context) {
	for ctx.Err() == nil {
		if len(t.held) > 150 {
			_ = t.held[0].Close()
			t.held = t.held[1:]
		}
		dial := net.Dialer{Timeout: 200 * time.Millisecond}
		if c, err := dial.DialContext(ctx, "tcp", t.listen); err == nil {
			t.held = append(t.held, c)
		}
		time.Sleep(30 * time.Millisecond)
	}
	for _, c := range t.held {
		_ = c.Close()
	}
}

// compareAlerts says which alerts fired that ought not to have, and which did not that
// ought to have.
func compareAlerts(ctx context.Context, w *world, plays, alarming []*play, t *troubled, began time.Time) *sheet {
	s := &sheet{phase: "alerts"}
	t.gate.stop(syscall.SIGKILL)
	time.Sleep(5 * time.Second)
	fired, err := w.prometheus.alerts(ctx, time.Since(began))
	if err != nil {
		s.fail("%v", err)
		return s
	}
	about := map[string]string{w.gate.admin: "", t.gate.admin: "troubled"}
	has := func(alert, about string) bool { return slices.Contains(fired, alert+" "+about) }
	raised := map[string]bool{}
	for _, p := range alarming {
		for _, alert := range p.alerts {
			raised[alert] = true
			told := 0.0
			if has(alert, p.name) {
				told = 1
			}
			s.exact("alerts", alert+" of "+p.name, 1, told)
		}
	}
	for _, alert := range t.expects {
		raised[alert] = true
		told := 0.0
		for _, f := range fired {
			if name, what, _ := strings.Cut(f, " "); name == alert && (what == "troubled" || what == "lag" || about[what] == "troubled") {
				told = 1
			}
		}
		s.exact("alerts", alert, 1, told)
	}
	for _, p := range plays {
		if !slices.Equal(p.verdict, []string{"admitting"}) {
			continue
		}
		n := 0.0
		for _, f := range fired {
			if name, what, _ := strings.Cut(f, " "); what == p.name && name != "AdmitdGateSlow" {
				n++
				s.fail("%s fired of %s, where all was well", name, p.name)
			}
		}
		s.exact("alerts", "of "+p.name, 0, n)
	}
	for _, name := range w.alertNames {
		if why := notPlayed[name]; !raised[name] && why == "" && len(alarming) > 1 {
			s.fail("nothing here raises %s", name)
		}
	}
	return s
}

// alertsOf lists the alerts of rules.
func alertsOf(rules string) (names []string) {
	for line := range strings.Lines(rules) {
		if _, name, ok := strings.Cut(line, "- alert: "); ok {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// keyPair writes a certificate that is valid for three days more.
func keyPair(dir string) error {
	certificate, key, err := selfSigned(3 * 24 * time.Hour)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "cert.pem"), bytes.TrimSpace(certificate), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "key.pem"), key, 0o600)
}
