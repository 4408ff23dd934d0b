package e2e_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// A backend that is dead is the first thing that the page says, in red, and that
// the terminal and the health check say. The page used to say "Everything is
// admitted: 200/s. Backend at 5.70 ms, 1.0× its base" beside a green dot.
func TestDeadBackendIsTold(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 60)
	p := open(t, d)
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	p.until(`document.querySelector("#tabs .dot").classList.contains("ok")`)

	config, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + free(t)
	write(t, d.config, strings.ReplaceAll(string(config), backendOf(t, string(config)), dead))
	p.until(`/^Backend answers nothing: 100 % of .*\/s failed \(unreachable\) for \d+ s/.test(document.getElementById("verdict").innerText)`)
	p.until(`document.getElementById("verdict").classList.contains("bad") && document.querySelector("#tabs .dot").classList.contains("bad")`)
	p.until(`document.getElementById("announce").innerText === "The backend answers nothing"`)
	p.until(`parseFloat(document.querySelector("#tile-failed dd").innerText) > 0`)
	p.until(`document.getElementById("backends").innerText.includes("` + dead + ` is down")`)
	p.until(`[...document.querySelectorAll("#rows .failing")].length > 0`)
	eventually(t, "failures are drawn", func() bool { all, _ := p.ink("requests", "--c-failed"); return all > 10 })
	p.shot("dead")

	top, err := exec.CommandContext(t.Context(), build(t), "top", "--once", "--admin", "http://"+d.admin).CombinedOutput()
	if err != nil || !strings.Contains(string(top), "Backend answers nothing: 100 % of") || !strings.Contains(string(top), "FAILED") {
		t.Errorf("top: %v\n%s", err, top)
	}
	res, err := http.Get("http://" + d.admin + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	ready, _ := io.ReadAll(res.Body)
	if !strings.Contains(string(ready), "orders: Backend answers nothing") {
		t.Errorf("readyz: %s", ready)
	}
}

// backendOf reads the backend's address in a configuration.
func backendOf(t *testing.T, config string) string {
	t.Helper()
	_, rest, _ := strings.Cut(config, `backend: "`)
	address, _, found := strings.Cut(rest, `"`)
	if !found {
		t.Fatal("the configuration names no backend")
	}
	return address
}

// With the gate off the latency goes on being measured: it used to stand still,
// at the moment when one asks whether the gate is the culprit.
func TestLatencyWhileOff(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 40)
	p := open(t, d)
	p.until(`parseFloat(document.querySelector("#tile-p99 dd").innerText) < 200`)
	config, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	slow := newSlowBackend(t, 400*time.Millisecond)
	off := strings.ReplaceAll(string(config), backendOf(t, string(config)), slow)
	write(t, d.config, strings.Replace(off, "    requests: { rate: 2000", "    mode: off\n    requests: { rate: 2000", 1))
	p.until(`parseFloat(document.querySelector("#tile-p99 dd").innerText) >= 400`)
	p.until(`/The gate is off\. The backend is slow: 4\d\d ms/.test(document.getElementById("verdict").innerText)`)
}

// Never a verdict without data: when the link is lost the page says since when,
// and dims what it shows.
func TestLostLink(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 40)
	p := open(t, d)
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	if err := d.cmd.Process.Signal(syscall.SIGSTOP); err != nil { // the connection stays, and says nothing
		t.Fatal(err)
	}
	defer func() { _ = d.cmd.Process.Signal(syscall.SIGCONT) }()
	p.until(`/^No link to the gate: last seen \d\d:\d\d:\d\d, \d+ s ago$/.test(document.getElementById("verdict").innerText)`)
	p.until(`getComputedStyle(document.getElementById("tiles")).opacity < 0.5`)
	if err := d.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	p.until(`getComputedStyle(document.getElementById("tiles")).opacity === "1"`)
}

// The very first thing that is said of a daemon that has just begun is that it
// is being measured.
func TestMeasuresFirst(t *testing.T) {
	d := start(t)
	res, err := http.Get("http://" + d.admin + "/v1/status?partitions=0")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var s struct {
		UptimeSeconds float64
		Ingresses     []struct {
			Verdict struct{ Condition, Text string }
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	if s.UptimeSeconds < 1 && s.Ingresses[0].Verdict.Text != "Measuring…" {
		t.Errorf("after %v s: %+v", s.UptimeSeconds, s.Ingresses[0].Verdict)
	}
}

// A change at run time is marked in the charts: what came before it and what
// after can be told apart.
func TestChangesAreMarked(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 40)
	p := open(t, d)
	p.choose("window", "60")
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	before, _ := p.ink("requests", "--muted")
	d.patch(t, `{"mode": "off"}`)
	p.until(`/The gate is off/.test(document.getElementById("verdict").innerText)`)
	eventually(t, "the change is marked", func() bool { now, _ := p.ink("requests", "--muted"); return now > before+40 })
	p.shot("marked")
}

// patch changes the ingress orders.
func (d *daemon) patch(t *testing.T, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, "http://"+d.admin+"/v1/ingresses/orders", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if answer, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("PATCH: %s %s", res.Status, answer)
	}
}

// The page opens full: what happened before is drawn as soon as it is there, and
// a reload of it loses nothing.
func TestOpensFull(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 60)
	after := d.admitted(t)
	eventually(t, "some seconds pass", func() bool { return d.admitted(t) > after+60*8 })
	p := open(t, d)
	p.choose("window", "60")
	full := func() bool { all, right := p.ink("requests", "--c-admitted"); return all > 40 && right > 40 }
	eventually(t, "the chart begins with the past", full)
	first := eval[float64](p, `(() => document.querySelectorAll("#charts .plot").length)()`)
	if first < 5 {
		t.Errorf("%v charts", first)
	}
	p.do(chromedp.Reload())
	p.choose("window", "60")
	opened := time.Now()
	eventually(t, "a reload loses nothing", full)
	if since := time.Since(opened); since > 6*time.Second {
		t.Logf("slow machine: the chart was full after %v", since)
	}
	got := events[[]float64](p, `
		store.take(event(100, [partition("a", 1)]), true);
		const at = Array.from({ length: 2000 }, (_, i) => Date.parse("2023-11-14T22:00:00Z") + 1000 * i);
		store.fill("orders", decodeHistory({ orders: { at, columns: { admitted: at.map((_, i) => i) }, partitions: { a: { at: at.slice(-3), columns: { admitted: [7, 8, 9] } } } } }, "orders"));
		const whole = column("", "admitted", 1e9), part = column("a", "admitted", 1e9);
		return [whole.length, whole.at(-1), part.at(-1), part.at(-4) ?? -1];
	`)
	if want := []float64{1830, 1999, 9, -1}; !slices.Equal(got, want) {
		t.Errorf("filled %v, want %v", got, want)
	}
}
