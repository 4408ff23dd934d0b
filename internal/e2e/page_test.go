package e2e_test

import (
	"net/url"
	"testing"

	"github.com/chromedp/chromedp"
)

// The page loads without a complaint in the console and asks nobody but its own
// port for anything.
func TestLoadsWithoutComplaint(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 50)
	p := open(t, d)
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	p.click("theme")
	p.click("pause")
	p.click("pause")
	p.click("settings")
	p.until(`document.getElementById("dialog").open`)
	p.click("cancel")
	console, requests := p.heard()
	if len(console) > 0 {
		t.Errorf("console: %q", console)
	}
	for _, r := range requests {
		if u, err := url.Parse(r); err != nil || u.Host != d.admin {
			t.Errorf("request to another host: %s", r)
		}
	}
	for _, want := range []string{"/page.js", "/lib/uplot", "/favicon.svg", "/v1/events"} {
		if !contains(requests, want) {
			t.Errorf("%s was not asked for; requests %q", want, requests)
		}
	}
	eval[bool](p, `(console.error("on purpose"), true)`) // or silence proves nothing
	eventually(t, "the console is heard", func() bool { console, _ := p.heard(); return contains(console, "console.error") })
}

// The page's policy forbids what is not its own, were it ever to slip in.
func TestPolicyHolds(t *testing.T) {
	p := open(t, start(t))
	p.do(chromedp.Evaluate[chromedp.Void](`(() => {
		window.violations = [];
		document.addEventListener("securitypolicyviolation", (e) => window.violations.push(e.violatedDirective));
		document.body.append(Object.assign(document.createElement("img"), { src: "http://127.0.0.2:9/x.png" }));
		document.body.append(Object.assign(document.createElement("script"), { textContent: "window.injected = true" }));
		void fetch("http://127.0.0.2:9/").catch(() => {});
	})()`))
	p.until(`["img-src", "connect-src", "script-src-elem"].every((d) => window.violations.includes(d))`)
	if eval[bool](p, `Boolean(window.injected)`) {
		t.Error("an inline script ran")
	}
}

// Charts draw, and go on drawing, what the load does; the verdict says why
// requests are refused, and for whom.
func TestChartsMoveUnderLoad(t *testing.T) {
	d := start(t)
	p := open(t, d)
	d.load(t, "checkout", 100)
	d.load(t, "batch", 300)
	d.patch(t, `{"partitions": {"named": {"batch": {"rate": 20}}}}`) // so that no slow machine has its permits refuse it first
	p.choose("window", "60")
	p.until(`/^Refusing .*request rate.*, most for batch/.test(document.getElementById("verdict").innerText)`)
	var first string
	for chart, colour := range map[string]string{"requests": "--c-admitted", "concurrency": "--c-inFlight", "latency": "--c-rtt"} {
		eventually(t, "ink of "+colour+" on "+chart, func() bool {
			all, right := p.ink(chart, colour)
			return all > 10 && right == all // the history is seconds long, the window a minute
		})
	}
	eventually(t, "refusals are drawn", func() bool { all, _ := p.ink("requests", "--r0"); return all > 10 })
	first = p.picture()
	before, _ := p.ink("requests", "--c-admitted")
	eventually(t, "the line grows", func() bool {
		now, _ := p.ink("requests", "--c-admitted")
		return now > before && p.picture() != first
	})

	p.until(`/^since the gate started, \d+ s ago$/.test(document.getElementById("charts-span").innerText)`)
	for _, id := range []string{"chart-bucket", "chart-connections", "tile-tokens", "tile-open"} { // these never limit here
		if eval[bool](p, `Boolean(document.getElementById("`+id+`")?.checkVisibility())`) {
			t.Errorf("%s is shown, though it does not limit", id)
		}
	}
	eval[bool](p, `([...document.querySelectorAll("#rows .name button")].find((b) => b.innerText === "batch").click(), true)`)
	eventually(t, "the bucket that limits batch is drawn", func() bool { all, _ := p.ink("bucket", "--c-tokens"); return all > 10 })
	p.until(`document.getElementById("chart-bucket").checkVisibility()`)
	p.do(chromedp.KeyEvent("\x1b"))

	p.click("pause")
	p.until(`document.getElementById("pills").innerText.includes("paused at")`)
	still := p.picture()
	after := d.admitted(t)
	eventually(t, "the gate goes on", func() bool { return d.admitted(t) > after+200 })
	if p.picture() != still {
		t.Error("a paused chart moved")
	}
	p.click("pause")
	eventually(t, "the chart moves again", func() bool { return p.picture() != still })
}
