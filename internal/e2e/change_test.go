package e2e_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// words returns the text of what a selector finds, with single spaces.
func (p *tab) words(selector string) string {
	p.t.Helper()
	return strings.Join(strings.Fields(p.text(selector)), " ")
}

// row presses a button of the row of a partition.
func (p *tab) row(partition, does string) {
	p.t.Helper()
	name, _ := json.Marshal(partition)
	script := `(() => {
		const tr = [...document.querySelectorAll("#rows tr")].find((r) => r.querySelector(".name button")?.textContent === ` + string(name) + `);
		const b = tr?.querySelector("[data-does=` + does + `]");
		b?.click();
		return Boolean(b);
	})()`
	eventually(p.t, does+" of "+partition, func() bool { return eval[bool](p, script) })
	p.until(`document.getElementById("dialog").open`)
}

// A change by the token arrives at the gate. Without the token, or with another,
// it is refused and nothing changes.
func TestChangeNeedsTheToken(t *testing.T) {
	d := start(t)
	d.load(t, "batch", 100)
	p := open(t, d)
	attempt := func(secret string) {
		t.Helper()
		p.click("settings")
		p.until(`document.getElementById("dialog").open`)
		p.choose("target", eval[string](p, `[...document.getElementById("target").options].find((o) => o.text === "partition batch").value`))
		p.choose("setting", eval[string](p, `[...document.getElementById("setting").options].find((o) => o.text.startsWith("Limit,")).value`))
		p.choose("value", "9")
		p.choose("token", secret)
		p.click("next")
		p.until(`!document.getElementById("review").hidden`)
		if got := p.words("#diff tbody"); got != "partitions.named.batch.limit.limit 4 9" {
			t.Errorf("the review says %q", got)
		}
		p.click("next")
	}
	for _, secret := range []string{"", "not-" + token} {
		attempt(secret)
		p.until(`document.getElementById("dialog-error").innerText.startsWith("Refused")`)
		if got := d.limit(t, "batch"); got != 4 {
			t.Errorf("with token %q the limit became %d", secret, got)
		}
		p.click("cancel")
	}
	attempt(token)
	p.until(`document.getElementById("dialog-title").innerText === "Changed orders"`)
	if got := p.words("#diff tbody"); !strings.HasSuffix(got, "limit.limit 4 9") {
		t.Errorf("the answer is shown as %q", got)
	}
	if got := d.limit(t, "batch"); got != 9 {
		t.Errorf("limit %d at the gate, want 9", got)
	}
	p.click("next")
	p.until(`!document.getElementById("dialog").open`)
	p.until(`document.getElementById("rows").innerText.includes("/ 9")`)

	// The token is asked for once, and kept where no script and no storage sees it.
	p.click("settings")
	p.until(`document.getElementById("dialog").open && document.getElementById("token-field").hidden`)
	p.click("cancel")
	if html := eval[string](p, `document.documentElement.outerHTML + JSON.stringify(localStorage) + document.cookie`); strings.Contains(html, token) {
		t.Error("the token was kept in the document or in storage")
	}

	// What was changed is told, and taken back from there.
	p.until(`document.getElementById("changed-pill").innerText === "changed at run time (1)"`)
	p.click("changed-pill")
	p.until(`document.getElementById("changed").open`)
	if got := p.words("#changed-rows"); got != "partitions.named.batch.limit.limit orders 4 9 Undo" {
		t.Errorf("changed at run time: %q", got)
	}
	p.do(chromedp.Click("#changed-rows button"))
	p.until(`!document.getElementById("changed-none").hidden`)
	if got := d.limit(t, "batch"); got != 4 {
		t.Errorf("limit %d after it was undone, want 4", got)
	}
	p.click("changed-close")
	p.until(`document.getElementById("changed-pill").hidden`)
}

// hostile are keys that a client may choose; each is text and nothing else.
func hostile() []string {
	return []string{`<img src=x onerror="window.owned=1">`, `__proto__`, `constructor`, `a/b?c#d%20e`, `"'` + "`${1}`"}
}

// One row is raised and blocked from the table, whatever its key is, and that
// alone is undone. The dialog opens on the row and asks for one number.
func TestRaiseAndBlockARow(t *testing.T) {
	d := startWith(t, "")
	for _, key := range append(hostile(), "tenant-1") {
		for range 3 {
			d.send(t.Context(), http.DefaultClient, key)
		}
	}
	p := open(t, d)
	for _, key := range append(hostile(), "tenant-1") {
		p.row(key, "raise")
		if fields := eval[int](p, `[...document.querySelectorAll("#dialog input")].filter((e) => e.checkVisibility()).length`); fields != 1 {
			t.Errorf("%d inputs are shown, want the one number, and no token where there is none", fields)
		}
		if got := p.text("#dialog-title"); got != "Raise "+key {
			t.Errorf("the dialog opens as %q", got)
		}
		p.choose("value", "77")
		p.click("next")
		p.until(`!document.getElementById("review").hidden`)
		p.click("next")
		p.until(`document.getElementById("next").innerText === "Close"`)
		p.click("next")
	}
	p.row("tenant-1", "block")
	p.click("next")
	p.until(`document.getElementById("dialog-title").innerText === "Changed tenant-1"`)
	p.click("next")
	got := d.overrides(t)
	for _, key := range hostile() {
		if got[key].Rate != 77.0 {
			t.Errorf("override of %q: %+v; want a rate of 77", key, got[key])
		}
	}
	if got["tenant-1"].Rate != "none" || got["tenant-1"].Until == "" {
		t.Errorf("override of tenant-1: %+v; want nothing passes, with an end", got["tenant-1"])
	}
	if eval[bool](p, `Boolean(window.owned) || ({}).limit !== undefined || ({}).rate !== undefined`) {
		t.Error("a client's key was more than text")
	}
	p.until(`document.getElementById("changed-pill").innerText === "changed at run time (6)"`)
	p.click("changed-pill")
	p.until(`document.querySelectorAll("#changed-rows tr").length === 6`)
	eval[bool](p, `([...document.querySelectorAll("#changed-rows tr")].find((r) => r.innerText.startsWith("__proto__")).querySelector("button").click(), true)`)
	p.until(`document.querySelectorAll("#changed-rows tr").length === 5`)
	if got := d.overrides(t); len(got) != 5 || got["tenant-1"].Rate != "none" {
		t.Errorf("after one was undone: %+v", got)
	}
}

// override is one as the admin port tells it.
type override struct {
	Key, Until string
	Rate       any
}

// overrides reads what is overridden, by key.
func (d *daemon) overrides(t *testing.T) map[string]override {
	t.Helper()
	res, err := http.Get("http://" + d.admin + "/v1/ingresses/" + url.PathEscape("orders") + "/overrides")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all struct{ Overrides []override }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	out := map[string]override{}
	for _, o := range all.Overrides {
		out[o.Key] = o
	}
	return out
}

// The first thing that is said of a partition is why: of the one that is refused
// most by itself, of another when it is chosen. What would come with the gate
// off is said too, beside the switch and on top.
func TestWhyAndWhatIf(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 40)
	d.load(t, "batch", 400) // its rate is 150/s
	p := open(t, d)
	p.until(`document.getElementById("why-title").innerText === "Refused most: batch"`)
	p.until(`document.getElementById("why-text").innerText.startsWith("The limit of batch is 4")`)
	p.until(`/^Switched off, it would pass \d+\/s more/.test(document.getElementById("forecast").innerText)`)
	p.do(chromedp.Click("#search"), chromedp.KeyEvent("checkout"), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.Enter))
	p.until(`document.getElementById("why-title").innerText === "Why: checkout"`)
	p.until(`document.getElementById("why-text").innerText.startsWith("The limit of checkout is")`)
	p.do(chromedp.KeyEvent(kb.Escape))
	p.click("settings")
	p.until(`document.getElementById("dialog").open`)
	p.choose("choice", "off")
	p.until(`document.getElementById("consequence").innerText.startsWith("Switched off, it would pass")`)
}

// Two people change the same thing: the second one is told, and loses nothing.
func TestLostUpdateIsRefused(t *testing.T) {
	d := start(t)
	p := open(t, d)
	p.click("settings")
	p.until(`document.getElementById("dialog").open`)
	p.choose("setting", "1") // the request rate
	p.choose("value", "1500")
	p.choose("token", token)
	d.patch(t, `{"requests": {"rate": 900}}`)
	p.click("next")
	p.until(`!document.getElementById("review").hidden`)
	p.click("next")
	p.until(`document.getElementById("dialog-error").innerText.startsWith("Somebody else changed it meanwhile")`)
	if requests, _ := d.ingress(t, "orders")["requests"].(map[string]any); requests["rate"] != 900.0 {
		t.Errorf("the rate is %v; want what the first one set, 900", requests["rate"])
	}
}

// Who makes the load is told with names that clients choose, as text; what does
// not exist has no place on the page.
func TestWhoMakesTheLoad(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 60)
	p := open(t, d)
	p.until(`document.getElementById("load-rows").innerText.includes("127.0.0.1")`)
	for _, id := range []string{"classes", "shapes", "fleet", "candidates", "tuner"} {
		if eval[bool](p, `document.getElementById("`+id+`").checkVisibility()`) {
			t.Errorf("%s is shown, though there is none", id)
		}
	}
	got := events[[]string](p, `
		const { showPanels } = await import("./panels.js");
		const doc = decodeStatus({ at: at(5), uptimeSeconds: 5, shadow: [{ name: "<b>wider", ingress: "orders", rejectedShare: 0.25 }],
			fleet: { group: "g", gates: 2, mode: "fair", problem: "redis does not answer", quotas: [{ name: "orders/requests", perSecond: 100, share: 50 }],
				differs: [{ name: "orders", perSecond: 50, ownPerSecond: 100, by: "<i>b", source: "file" }, { name: "billing", perSecond: 5, ownPerSecond: 9, by: "b", source: "runtime" }] },
			ingresses: [{ name: "orders", classes: { counts: [{ class: "critical", admitted: 3 }] }, shapes: [{ name: "select <i>", share: 0.75 }], top: { client: [{ name: "<img src=x onerror=window.owned=1>", received: 4 }] } }] });
		store.take(doc, true);
		showPanels(doc, store.ingresses.get("orders"));
		return ["load", "classes", "shapes", "fleet", "candidates"].map((id) => document.getElementById(id).innerText);
	`)
	for i, want := range []string{"<img src=x onerror=window.owned=1>", "critical", "select <i>", "fair, redis does not answer; files of gates differ: orders is 50/s by the file of gate <i>b, 100/s by this gate's", "<b>wider"} {
		if !strings.Contains(got[i], want) {
			t.Errorf("panel %d says %q; want %q as text", i, got[i], want)
		}
	}
	if eval[bool](p, `Boolean(window.owned)`) {
		t.Error("a name was more than text")
	}
}

// What the tuner moves is shown, with the button that stops it; the token is
// asked for where there is one, and once.
func TestFreezeTheTuner(t *testing.T) {
	d := start(t)
	config, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	p := open(t, d)
	write(t, d.config, string(config)+`tuner:
  mode: advise
  signals: [ { name: load, source: host, metric: load } ]
  policies: [ { name: guard, kind: target, signal: load, target: 0.8, adjust: orders.requests.rate, min: 100, max: 5000, step: 0.1, cooldown: 10s } ]
`)
	p.until(`document.getElementById("pills").innerText.includes("config in force")`)
	eventually(t, "the tuner is told", func() bool {
		res, err := http.Get("http://" + d.admin + "/v1/tuner")
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK
	})
	p.do(chromedp.Reload())
	p.until(`document.getElementById("tuner").checkVisibility() && document.getElementById("tuner-settings").innerText.includes("orders.requests.rate")`)
	p.click("tuner-freeze")
	p.until(`document.getElementById("tuner-told").innerText.startsWith("Refused: a token is needed")`)
	p.choose("tuner-token", token)
	p.click("tuner-freeze")
	p.until(`document.getElementById("tuner-told").innerText === "Tuner: freeze done" && document.getElementById("tuner-freeze").innerText === "Unfreeze"`)
	p.click("tuner-freeze")
	p.until(`document.getElementById("tuner-told").innerText === "Tuner: unfreeze done"`)
}
