package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// decisions returns where the decisions listener is.
func (p *process) decisions() string {
	p.t.Helper()
	address, _ := p.line("to serve", func(l logLine) bool { return l.is("admitd serves", "") })["decisions"].(string)
	return "http://" + address
}

// ask sends one request to the decisions listener.
func ask(t *testing.T, method, url, body string, fields ...string) *answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	a, err := send(http.DefaultClient, r)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// tokenFile writes a token.
func tokenFile(t *testing.T, token string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(name, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// Who asks for permits has a token of its own: it is no use at the admin port,
// and the admin port's is no use here.
func TestDecisionsListener(t *testing.T) {
	p := startProcess(t, fmt.Sprintf(`
admin: { tokenFile: %q }
decisions: { listen: "127.0.0.1:0", tokenFile: %q }
ingresses: [ { name: jobs } ]
`, tokenFile(t, "operators"), tokenFile(t, "callers")))
	const grant = `{"ingress": "jobs"}`
	url := p.decisions()
	if a := ask(t, "POST", url+"/v1/admissions", grant, "Authorization", "Bearer callers"); a.status != http.StatusCreated {
		t.Errorf("with the callers' token = %d %s; want 201", a.status, a.body)
	}
	for _, token := range []string{"", "operators"} {
		if a := ask(t, "POST", url+"/v1/admissions", grant, "Authorization", "Bearer "+token); a.status != http.StatusUnauthorized {
			t.Errorf("with the token %q = %d; want 401", token, a.status)
		}
	}
	if a := ask(t, "POST", "http://"+p.admin+"/v1/reload", "", "Authorization", "Bearer callers"); a.status != http.StatusUnauthorized {
		t.Errorf("reload with the callers' token = %d; want 401", a.status)
	}
	if a := ask(t, "POST", "http://"+p.admin+"/v1/admissions", grant, "Authorization", "Bearer operators"); a.status == http.StatusCreated {
		t.Errorf("on the admin port = %d; want no permit", a.status)
	}
	p.becomes(`admitd_requests_in_flight{ingress="jobs",partition="default"}`, 1)
	p.becomes(`admitd_decisions_total{decision="admitted",via="admissions"}`, 1)
	p.becomes(`admitd_decision_permits`, 1)
}

// The requests that a proxy asks about are identified by the rules of the
// ingress: partition, exemptions and costs.
func TestAuthorizeGoesByTheIngress(t *testing.T) {
	p := startProcess(t, `
decisions: { listen: "127.0.0.1:0" }
ingresses:
  - name: shop
    requests: { rate: 0.001, burstSeconds: 10000, exempt: { operations: [GET /health] } }
    cost: { byOperation: { "POST /orders/{id}": 6 } }
    partitions: { by: header:X-Tenant }
`)
	url := p.decisions() + "/v1/authorize?ingress=shop"
	dear := []string{"X-Forwarded-Method", "POST", "X-Forwarded-Uri", "/orders/7?x=1", "X-Tenant", "acme"}
	if a := ask(t, "GET", url, "", dear...); a.status != http.StatusNoContent {
		t.Fatalf("first order = %d %s; want 204", a.status, a.body)
	}
	a := ask(t, "GET", url+"&deny=403", "", dear...)
	if doc := a.document(t); a.status != http.StatusForbidden || a.header.Get("X-Admitd-Status") != "429" || doc["reason"] != "request_rate" || doc["partition"] != "acme" {
		t.Errorf("second order, with four tokens left = %d %v %s; want 403, marked 429, of the partition acme", a.status, a.header, a.body)
	}
	for range 5 {
		if a := ask(t, "GET", url, "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/health"); a.status != http.StatusNoContent {
			t.Errorf("an exempt request = %d %s; want 204", a.status, a.body)
		}
	}
}

// After SIGTERM the daemon says that it leaves and goes on serving for
// drainDelay; a second signal does not wait for it.
func TestLameDuck(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, "drainDelay: 10m\ndecisions: { listen: \"127.0.0.1:0\" }\n"+fmt.Sprintf(orders, b.URL, "10s", 0))
	url := p.url("orders")
	p.signal(syscall.SIGTERM)
	p.said("serving on until balancers have noticed")
	for _, ready := range []string{"http://" + p.admin + "/readyz", p.decisions() + "/readyz", url + "/v1/hello"} {
		if a := mustGet(t, ready); a.status != http.StatusServiceUnavailable {
			t.Errorf("%s = %d %s; want 503", ready, a.status, a.body)
		}
	}
	// What admitd top shows said "serving".
	if a := mustGet(t, "http://"+p.admin+"/v1/status"); !strings.Contains(string(a.body), `"draining":true`) {
		t.Errorf("status %s; want that it drains", a.body)
	}
	if a := mustGet(t, url); a.status != http.StatusOK {
		t.Errorf("a request meanwhile = %d %s; want 200", a.status, a.body)
	}
	if a := ask(t, "POST", p.decisions()+"/v1/admissions", `{"ingress": "orders"}`); a.status != http.StatusCreated {
		t.Errorf("an admission meanwhile = %d %s; want 201", a.status, a.body)
	}
	if n := p.count("draining"); n != 0 {
		t.Error("it drains already")
	}
	p.signal(syscall.SIGTERM)
	if code := p.exit(); code != exitKilled {
		t.Errorf("exit code after a second signal = %d; want %d", code, exitKilled)
	}
}

// A caller that holds a permit, perhaps for ever, keeps no drain waiting, and nobody
// who asks is refused because of it: while the listener is open they are answered, and
// then proxies find nobody there. All asks of all ingresses were refused for ten
// seconds behind one permit.
func TestDrainRefusesNoAsk(t *testing.T) {
	p := startProcess(t, "decisions: { listen: \"127.0.0.1:0\" }\ningresses: [ { name: jobs }, { name: shop } ]\n")
	if a := ask(t, "POST", p.decisions()+"/v1/admissions", `{"ingress": "jobs", "ttlMS": 60000}`); a.status != http.StatusCreated {
		t.Fatalf("admission = %d %s", a.status, a.body)
	}
	p.signal(syscall.SIGTERM)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.decisions()+"/v1/authorize?ingress=shop", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := client.Do(req)
		if err != nil {
			break // the proxy can go elsewhere
		}
		_ = res.Body.Close()
		if res.StatusCode != http.StatusNoContent {
			t.Fatalf("an ask while the daemon stops = %d", res.StatusCode)
		}
	}
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}

// When the delay is over it drains and ends well.
func TestLameDuckDrains(t *testing.T) {
	b := startBackend(t)
	p := startProcess(t, "drainDelay: 50ms\n"+fmt.Sprintf(orders, b.URL, "10s", 0))
	p.signal(syscall.SIGTERM)
	p.said("drained")
	if code := p.exit(); code != 0 {
		t.Errorf("exit code %d; want 0", code)
	}
}

// A unit with WatchdogSec hears from the daemon, after it is ready and until it
// has ended.
func TestWatchdog(t *testing.T) {
	b := startBackend(t)
	address := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "admitd.yaml"), done: make(chan struct{}), more: make(chan struct{})}
	p.write(fmt.Sprintf(orders, b.URL, "1s", 0))
	p.cmd = exec.Command("sh", "-c", `NOTIFY_SOCKET=$1 WATCHDOG_PID=$$ WATCHDOG_USEC=100000 exec admitd serve --config "$0"`, p.path, address)
	p.start()
	await := func(want string, times int) {
		t.Helper()
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		buf := make([]byte, 4096)
		for seen := 0; seen < times; {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatalf("waited for %s: %v", want, err)
			}
			if strings.Contains(string(buf[:n]), want) {
				seen++
			}
		}
	}
	await("READY=1", 1)
	await("WATCHDOG=1", 3)
	p.signal(syscall.SIGTERM)
	await("STOPPING=1", 1)
}

// The socket of a wire protocol may come from systemd as well: who connects to it
// reaches the server behind the gate.
func TestInheritedWireSocket(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	file, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() { // it speaks no TLS either
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			_, _ = c.Write([]byte("N"))
		}
	}()
	p := &process{t: t, path: filepath.Join(t.TempDir(), "admitd.yaml"), done: make(chan struct{}), more: make(chan struct{})}
	p.write(fmt.Sprintf("ingresses: [ { name: ledger, protocol: postgres, listen: \"127.0.0.1:1\", backend: %q } ]\n", server.Addr().String()))
	p.cmd = exec.Command("sh", "-c", `LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=ledger exec admitd serve --config "$0"`, p.path)
	p.cmd.ExtraFiles = []*os.File{file}
	p.start()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write([]byte{0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f}); err != nil { // SSLRequest
		t.Fatal(err)
	}
	reply := make([]byte, 1)
	if _, err := io.ReadFull(c, reply); err != nil || reply[0] != 'N' {
		t.Errorf("SSLRequest on an inherited socket = %q (%v); want N", reply, err)
	}
}

// Callers may be asked for certificates instead of a token, and a reload reads the
// token anew without ever dropping it.
func TestDecisionsOverTLS(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	ca := newAuthority(t, in("ca.pem"))
	ca.issue(t, 2, in("cert.pem"), in("key.pem"))
	ca.issue(t, 3, in("caller.pem"), in("caller.key"))
	own, err := tls.LoadX509KeyPair(in("caller.pem"), in("caller.key"))
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, fmt.Sprintf(`
decisions: { listen: "0.0.0.0:0", tls: { certFile: %q, keyFile: %q, clientCAFile: %q } }
ingresses: [ { name: jobs } ]
`, in("cert.pem"), in("key.pem"), in("ca.pem")))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.decisions(), "http://"))
	address := "127.0.0.1:" + port + "/readyz"
	if serial, protocol, err := ca.serial(t, address, own); err != nil || serial != 2 || protocol != "HTTP/2.0" {
		t.Errorf("with a certificate: %d, %s, %v; want number 2 over HTTP/2", serial, protocol, err)
	}
	if _, _, err := ca.serial(t, address); err == nil {
		t.Error("without a certificate it is answered")
	}
}

func TestReloadReadsTheCallersToken(t *testing.T) {
	file := tokenFile(t, "first")
	p := startProcess(t, fmt.Sprintf("decisions: { listen: \"0.0.0.0:0\", tokenFile: %q }\ningresses: [ { name: jobs } ]\n", file))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(p.decisions(), "http://"))
	status := func(token string) int {
		return ask(t, "GET", "http://127.0.0.1:"+port+"/v1/authorize?ingress=jobs", "", "X-Admitd-Token", token).status
	}
	if err := os.WriteFile(file, []byte("second"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status("first") != http.StatusNoContent {
		t.Error("the token changed before a reload")
	}
	if code, body := p.api("POST", "/v1/reload", ""); code != http.StatusOK {
		t.Fatalf("reload = %d %s", code, body)
	}
	if first, second := status("first"), status("second"); first != http.StatusUnauthorized || second != http.StatusNoContent {
		t.Errorf("after it: %d with the old token, %d with the new one; want 401, 204", first, second)
	}
	p.put("decisions: { listen: \"0.0.0.0:0\", insecure: true }\ningresses: [ { name: jobs } ]\n")
	if none := status(""); none != http.StatusUnauthorized {
		t.Errorf("after a reload without a token = %d; want 401: others reach the listener", none)
	}
	p.said("the decisions listener keeps its token, for others than this machine can reach it; restart to serve without one")
}
