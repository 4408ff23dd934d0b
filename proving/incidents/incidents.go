package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// incident is what goes wrong, and what is to be said of it.
type incident struct {
	name       string
	calm       time.Duration // at least, before it begins
	storm      bool          // what is asked more comes from one tenant
	retries    int           // how often a client asks again what was refused; it says which attempt it is
	prepare    func(ctx context.Context, w *world) error
	begin, end func(ctx context.Context, w *world) error // end is nil where it is not waited for

	level   string // of the verdict
	says    string // the verdict, a regular expression
	explain string // "" = it has nothing to say of it
	ready   string // /readyz; "" = ready, without a detail

	metricName string // the series that begin so, added up
	metricIs   func(v float64) bool
	counter    bool // it stays when the incident is over
	alert      string
	noisy      bool // on a busy machine the alert may stay
}

// none is no time in which nothing happens.
func none(context.Context, *world) error { return nil }

// answers has the backend answer in another way.
func answers(h http.HandlerFunc) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error { w.backend.does(h); return nil }
}

// asks has the load ask so often per second.
func asks(rate int64) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error { w.rate.Store(rate); return nil }
}

// with adds keys to the configuration of the ingress.
func with(keys string) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error { w.extra += ", " + keys; return nil }
}

// both does one after the other.
func both(a, b func(context.Context, *world) error) func(context.Context, *world) error {
	return func(ctx context.Context, w *world) error { return errors.Join(a(ctx, w), b(ctx, w)) }
}

func above(least float64) func(float64) bool { return func(v float64) bool { return v > least } }
func is(want float64) func(float64) bool     { return func(v float64) bool { return v == want } }

const byTenant = `partitions: { by: "header:X-Tenant" }`

// incidents are those that operators meet.
func incidents() []incident {
	well := answers(takes(service))
	return []incident{
		{
			name: "backend dead", begin: func(_ context.Context, w *world) error { w.backend.close(); return nil },
			end:   func(_ context.Context, w *world) error { return w.backend.open() },
			level: "bad", says: `^Backend answers nothing`, ready: `Backend answers nothing`,
			metricName: "admitd_backend_up{", metricIs: is(0), alert: "AdmitdBackendFailing",
		},
		{
			name: "backend closes connections", begin: answers(closes()), end: well,
			level: "bad", says: `^The backend fails: [<>]? ?\d+ % of \d+(\.\d)?/s failed \(`, ready: `The backend fails`,
			metricName: "admitd_backend_failures_total{", metricIs: above(0), counter: true, alert: "AdmitdBackendFailing",
		},
		{
			name: "backend answers 500", begin: answers(says(http.StatusInternalServerError, 1)), end: well,
			level: "bad", says: `^The backend answers 100 % of \d+(\.\d)?/s with a status of 5xx\.`, ready: `with a status of 5xx`,
			metricName: `admitd_backend_responses_total{class="5xx"`, metricIs: above(0), counter: true, alert: "AdmitdBackendErrors",
		},
		{
			name: "backend answers 503 to a fifth", begin: answers(says(http.StatusServiceUnavailable, 5)), end: well,
			level: "bad", says: `^The backend answers \d+ % of \d+(\.\d)?/s with a status of 5xx\.`, ready: `with a status of 5xx`,
			metricName: `admitd_backend_responses_total{class="5xx"`, metricIs: above(0), counter: true, alert: "AdmitdBackendErrors",
		},
		{
			name: "backend hangs", begin: answers(hangs), end: well,
			level: "bad", says: `^The backend does not answer: \d+ in flight, and none was answered for `, ready: `The backend does not answer`,
			metricName: "admitd_requests_in_flight{", metricIs: above(10), alert: "AdmitdBackendFailing",
		},
		{
			name: "backend five times as slow", calm: 20 * time.Second, begin: answers(takes(5 * service)), end: well,
			level: "warn", says: `The backend is slow: 1\d\d ms, [4-6]\.\d× its base of \d\d(\.\d)? ms\.`,
			metricName: "admitd_backend_responses_total{", metricIs: above(0), counter: true, alert: "AdmitdBackendSlow",
		},
		{
			name: "a request costs the backend four times as much", calm: 20 * time.Second, prepare: both(with(byTenant), answers(queues(4, service))),
			begin: func(_ context.Context, w *world) error {
				w.backend.does(queues(4, 4*service))
				w.rate.Store(100)
				return nil
			},
			end:   both(asks(calmRate), well),
			level: "warn", says: `^Refusing \d+ % of \d+/s: (concurrency limit|queue timeout).* The backend is slow: `, explain: `^The limit of acme is \d+, with `,
			metricName: "admitd_requests_rejected_total{", metricIs: above(0), counter: true, alert: "AdmitdRejectionsSustained",
		},
		{
			name: "storm of one tenant", storm: true, prepare: with(`partitions: { by: "header:X-Tenant", default: { rate: 60 } }`), begin: asks(400), end: asks(calmRate),
			level: "warn", says: `^Refusing \d+ % of \d+/s: request rate \(gate\.yaml:\d+\), most for acme \(\d+/s\)\.`, explain: `/s are refused: request rate \(gate\.yaml:\d+\)\.`,
			metricName: `admitd_requests_rejected_total{ingress="orders",limit="partition",partition="default",reason="request_rate"}`, metricIs: above(0), counter: true, alert: "AdmitdRejectionsSustained",
		},
		{
			name: "retry storm", retries: 3, prepare: with(`requests: { rate: 60 }`), begin: asks(120), end: asks(calmRate),
			level: "warn", says: `^[4-9]\d % of \d+/s are retries, as their callers say: without them it would be \d+(\.\d)?/s\. \d+/s are refused: request rate, the ingress may take 60/s \(gate\.yaml:\d+\)\.`,
			metricName: `admitd_request_attempts_total{attempt="retry"`, metricIs: above(0), counter: true, alert: "AdmitdRetryStorm",
		},
		{
			name: "limit pinned by somebody", prepare: with(byTenant), begin: pin, end: unpin,
			level: "warn", says: `^Refusing \d+ % of \d+/s: (concurrency limit|queue timeout), set by override \S+ \(limit=1\) by .* UTC, until \d\d:\d\d:\d\d UTC, most for acme \(\d+(\.\d)?/s\)\.`,
			explain:    `The limit of acme is 1, .* by override \S+ \(limit=1\) by .* at \d\d:\d\d:\d\d UTC, until \d\d:\d\d:\d\d UTC\.`,
			metricName: "admitd_runtime_overrides{", metricIs: is(1), alert: "AdmitdRejectionsSustained",
		},
		{
			name: "certificate expired", prepare: certified, begin: certify("expired"), end: certify("renewed"),
			level: "bad", says: `^The certificate of this listener expired \d+ (min|h|days?)\b.* ago\. \d+(\.\d)? TLS handshakes/s fail\.`, ready: `The certificate of this listener expired`,
			metricName: `admitd_tls_certificate_expiry_timestamp_seconds{`, metricIs: func(v float64) bool { return v < float64(time.Now().Unix()) }, alert: "AdmitdCertificateExpires",
		},
		{
			name: "no descriptors left", prepare: fewFiles, begin: takeFiles, end: release,
			level: "bad", says: `^No file descriptors are left: \d+(\.\d)?/s are turned away`, ready: `No file descriptors are left`,
			metricName: `admitd_connections_rejected_total{ingress="orders",reason="descriptors"}`, metricIs: above(0), counter: true, alert: "AdmitdOutOfDescriptors",
		},
		{
			name: "state file on a full disk", prepare: smallDisk, begin: fillDisk, end: emptyDisk,
			level: "ok", says: calmly, ready: `state file`,
			metricName: "admitd_state_last_write_successful", metricIs: is(0), alert: "AdmitdStateNotWritten",
		},
		{
			name: "Redis down, fallback closed", prepare: grouped, begin: stopRedis, end: startRedis,
			level: "bad", says: `^The group of gates does not answer, and the fallback is closed: [<>]? ?\d+ % of \d+(\.\d)?/s are refused\.`, ready: `the fleet's group does not answer`,
			metricName: `admitd_fleet_mode{mode="closed"}`, metricIs: is(1), alert: "AdmitdFleetAlone",
		},
		{
			name: "clock not trusted", prepare: clockStands, begin: none, // it is trusted again ten minutes after
			level: "ok", says: `^Everything is admitted: \d+/s\. .*The clock cannot be trusted: adaptive limits are fixed\.`, explain: `The clock cannot be trusted: it is the fixed fallback\.`, ready: `the clock is not trusted`,
			metricName: "admitd_clock_trusted", metricIs: is(0), alert: "AdmitdClockNotTrusted",
		},
		{
			name: "gate without a processor", begin: both(asks(200), starve), end: both(asks(calmRate), release),
			level: "warn", says: `This gate is short of processor: work that is ready waits up to ([6-9]\d\.\d|\d{3}) ms for one\.`,
			metricName: "admitd_scheduler_delay_seconds", metricIs: above(0.06), alert: "AdmitdGateDelayed", noisy: true,
		},
	}
}

// pin sets the limit of a tenant that needs more.
func pin(_ context.Context, w *world) error {
	w.rate.Store(240)
	_, err := w.send(http.MethodPatch, "/v1/ingresses/orders", `{"overrides": {"acme": {"limit": 1, "for": "30m"}}}`)
	return err
}

// unpin takes that back.
func unpin(_ context.Context, w *world) error {
	w.rate.Store(calmRate)
	_, body, err := w.ask("/v1/ingresses/orders/overrides")
	if err != nil {
		return err
	}
	var d struct {
		Overrides []struct {
			ID json.RawMessage `json:"id"`
		} `json:"overrides"`
	}
	if err := json.Unmarshal([]byte(body), &d); err != nil || len(d.Overrides) != 1 {
		return fmt.Errorf("overrides: %s", body)
	}
	id := string(d.Overrides[0].ID)
	_ = json.Unmarshal(d.Overrides[0].ID, &id)
	_, err = w.send(http.MethodDelete, "/v1/ingresses/orders/overrides/"+id, "")
	return err
}

// certified gives the listener a certificate that is good for a month, and makes two more.
func certified(_ context.Context, w *world) error {
	pool := x509.NewCertPool()
	for name, good := range map[string]time.Duration{"good": 30 * 24 * time.Hour, "expired": -3 * time.Minute, "renewed": 60 * 24 * time.Hour} {
		if err := newCertificate(filepath.Join(w.dir, name), good, pool); err != nil {
			return err
		}
	}
	w.tls = true
	w.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}}
	w.extra += fmt.Sprintf(", tls: { certFile: %q, keyFile: %q }", filepath.Join(w.dir, "served.crt"), filepath.Join(w.dir, "served.key"))
	return certify("good")(context.Background(), w)
}

// certify serves another certificate.
func certify(name string) func(context.Context, *world) error {
	return func(_ context.Context, w *world) error {
		for _, end := range []string{".key", ".crt"} {
			b, err := os.ReadFile(filepath.Join(w.dir, name+end))
			if err != nil {
				return err
			}
			next := filepath.Join(w.dir, "next"+end)
			if err := errors.Join(os.WriteFile(next, b, 0o600), os.Rename(next, filepath.Join(w.dir, "served"+end))); err != nil {
				return err
			}
		}
		return nil
	}
}

// newCertificate writes a certificate for 127.0.0.1 that vouches for itself.
func newCertificate(file string, good time.Duration, pool *x509.CertPool) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: filepath.Base(file)}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().Add(good),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, key.Public(), key)
	if err != nil {
		return err
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return err
	}
	pool.AddCert(leaf)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(file+".crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(file+".key", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}

// fewFiles starts the gate with few descriptors; its clients come with a connection each.
func fewFiles(_ context.Context, w *world) error {
	if _, err := exec.LookPath("prlimit"); err != nil {
		return absence("needs the program prlimit")
	}
	w.limit = []string{"prlimit", "--nofile=80:80"}
	w.client = &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return nil
}

// takeFiles holds many connections open, and opens others for those that are closed.
func takeFiles(ctx context.Context, w *world) error {
	holding, stop := context.WithCancel(ctx)
	w.release = stop
	w.undo = append(w.undo, stop)
	for range 100 {
		go func() {
			for holding.Err() == nil {
				c, err := net.DialTimeout("tcp", w.gate, time.Second)
				if err == nil {
					ended := context.AfterFunc(holding, func() { _ = c.Close() })
					_, _ = c.Read(make([]byte, 1)) // until it is closed
					ended()
					_ = c.Close()
				}
				_ = sleep(holding, 200*time.Millisecond)
			}
		}()
	}
	return nil
}

// release ends what takeFiles or starve began.
func release(_ context.Context, w *world) error { w.release(); return nil }

// smallDisk puts the state file on a disk of 64 KiB.
func smallDisk(_ context.Context, w *world) error {
	if os.Getenv("INCIDENTS_APART") == "" {
		return absence("needs a namespace of its own for mounts")
	}
	dir := filepath.Join(w.dir, "disk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=64k"); err != nil {
		return absence("needs to mount a disk: " + err.Error())
	}
	w.undo = append(w.undo, func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	w.top = fmt.Sprintf("stateFile: %q", filepath.Join(dir, "state"))
	return nil
}

func ballast(w *world) string { return filepath.Join(w.dir, "disk", "ballast") }

// fillDisk leaves no room.
func fillDisk(_ context.Context, w *world) error {
	for step := 4 << 10; step > 0; step /= 4 {
		for {
			f, err := os.OpenFile(ballast(w), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			_, err = f.Write(make([]byte, step))
			_ = f.Close()
			if errors.Is(err, syscall.ENOSPC) {
				break
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func emptyDisk(_ context.Context, w *world) error { return os.Remove(ballast(w)) }

// redisAt is where the Redis of a world listens, and what ends it.
type redisAt struct {
	address string
	stop    func()
}

// grouped has the gate share its rate.
func grouped(ctx context.Context, w *world) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return absence("needs the program redis-server")
	}
	w.redis = &redisAt{address: freePort()}
	w.top = fmt.Sprintf("fleet: { redis: { addresses: [%q] }, fallback: closed, lease: 2s }", w.redis.address)
	w.extra += ", requests: { rate: 1000, shared: true }"
	w.undo = append(w.undo, func() { w.redis.stop() })
	return startRedis(ctx, w)
}

func startRedis(ctx context.Context, w *world) error {
	_, number, err := net.SplitHostPort(w.redis.address)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "redis-server", "--port", number, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", w.dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	w.redis.stop = func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	_, err = until(ctx, 10*time.Second, func() (string, error) {
		c, err := net.DialTimeout("tcp", w.redis.address, time.Second)
		if err == nil {
			_ = c.Close()
		}
		return "", err
	})
	return err
}

func stopRedis(_ context.Context, w *world) error { w.redis.stop(); return nil }

// clockStands starts the gate with a clock that stands still, once it is calm.
func clockStands(_ context.Context, w *world) error {
	w.args = []string{"--clock-fault", "frozen@25s"}
	w.extra += ", " + byTenant
	return nil
}

// starve lets the gate run for a small part of the time, in turns.
func starve(ctx context.Context, w *world) error {
	turns, stop := context.WithCancel(ctx)
	w.undo = append(w.undo, stop)
	w.release = stop
	go func() {
		for turns.Err() == nil {
			_ = w.cmd.Process.Signal(syscall.SIGSTOP)
			_ = sleep(turns, 80*time.Millisecond)
			_ = w.cmd.Process.Signal(syscall.SIGCONT)
			_ = sleep(turns, 5*time.Millisecond)
		}
	}()
	return nil
}
