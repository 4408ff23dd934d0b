package e2e_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A thousand partitions are searched, sorted and walked through with the
// keyboard, and only the rows in view exist.
func TestThousandPartitions(t *testing.T) {
	d := start(t)
	for i := range 1000 {
		d.send(t.Context(), http.DefaultClient, fmt.Sprintf("tenant-%04d", i))
	}
	p := open(t, d)
	d.load(t, "tenant-0007", 100)
	eval[bool](p, `(window.longest = 0, new PerformanceObserver((l) => {
		for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration);
	}).observe({ type: "longtask" }), true)`)
	p.until(`document.getElementById("count").innerText === "104 of 1004"`)
	p.until(`document.querySelector("#rows .name button")?.innerText === "tenant-0007"`) // the busiest on top
	if rows := eval[int](p, `document.querySelectorAll("#rows tr").length`); rows > 60 {
		t.Errorf("%d rows exist at once", rows)
	}
	// The stream lists those that are asked most, and a search finds the others.
	if got := eval[string](p, `document.getElementById("table").getAttribute("aria-rowcount")`); got != "105" {
		t.Errorf("aria-rowcount %s, want the heading, a hundred keys and four partitions", got)
	}

	// One update of everything must fit well into a frame's neighbourhood.
	cost := eval[float64](p, `(() => {
		const rows = document.getElementById("scroller"), at = performance.now();
		for (let i = 0; i < 20; i++) { rows.scrollTop = i * 1500; rows.dispatchEvent(new Event("scroll")); }
		rows.scrollTop = 0;
		return (performance.now() - at) / 20;
	})()`)
	t.Logf("a page of rows takes %.2f ms", cost)
	if cost > 50 {
		t.Errorf("a page of rows takes %.1f ms", cost)
	}

	p.press("/")
	p.do(chromedp.KeyEvent("0042"))
	p.until(`document.getElementById("count").innerText === "1 of 1004"`)
	p.do(chromedp.KeyEvent(kb.ArrowDown))
	p.until(`document.activeElement.innerText === "tenant-0042"`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.getElementById("charts-title").innerText === "Partition tenant-0042"`)
	if got := eval[string](p, `document.activeElement.getAttribute("aria-pressed")`); got != "true" {
		t.Errorf("aria-pressed %s", got)
	}
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`document.getElementById("charts-title").innerText === "All partitions"`)

	p.choose("search", "")
	eval[bool](p, `(document.querySelector("#head th button").click(), true)`) // by name, upwards
	p.until(`document.querySelector("#head th").getAttribute("aria-sort") === "ascending"`)
	p.until(`document.querySelector("#rows .name button").innerText === "batch"`)
	p.do(chromedp.Focus("#scroller"), chromedp.KeyEvent(kb.End))
	p.until(`document.activeElement.innerText.startsWith("tenant-") && document.activeElement.closest("tr").getAttribute("aria-rowindex") === "105"`)
	longest := eval[float64](p, `window.longest`)
	t.Logf("the longest the page was busy at once: %.0f ms", longest)
	if longest > 500 { // some 50 ms on an idle machine
		t.Errorf("the page was busy for %.0f ms at once", longest)
	}
	console, _ := p.heard()
	if len(console) > 0 {
		t.Errorf("console: %q", console)
	}
}

// The page fits a phone, follows the system's choice of light and dark, and can
// be set against it.
func TestWidthsAndThemes(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 60)
	d.load(t, "batch", 250)
	for i := range 12 {
		d.load(t, fmt.Sprintf("tenant-%02d", i), float64(4+3*i))
	}
	p := open(t, d)
	p.until(`document.getElementById("verdict").innerText.startsWith("Refusing")`)
	background := func() string { return eval[string](p, `getComputedStyle(document.body).backgroundColor`) }
	p.prefer("light")
	light := background()
	p.prefer("dark")
	p.until(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor !== %q`, light))
	dark := background()
	p.click("theme") // auto → light
	if got := background(); got != light {
		t.Errorf("background %s with the light theme, want %s", got, light)
	}
	p.click("theme") // → dark
	if got := background(); got != dark {
		t.Errorf("background %s with the dark theme, want %s", got, dark)
	}
	p.click("theme") // → auto
	eventually(t, "charts are drawn", func() bool { all, _ := p.ink("requests", "--c-admitted"); return all > 40 })
	p.do(chromedp.EmulateViewport(1360, 1010))
	if grow(t, p) {
		p.until(`document.getElementById("rows").innerText.length > 200`)
	}
	eval[bool](p, `(document.activeElement.blur(), true)`)
	p.shot("dark")
	p.prefer("light")
	p.until(fmt.Sprintf(`getComputedStyle(document.body).backgroundColor === %q`, light))
	p.shot("light")
	p.do(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile, chromedp.EmulateTouch))
	p.until(`document.documentElement.clientWidth <= 390`)
	p.until(`document.getElementById("canvas-requests").getBoundingClientRect().width <= 390`)
	if wide := eval[int](p, `document.documentElement.scrollWidth`); wide > 390 {
		t.Errorf("the page is %d pixels wide on a phone of 390", wide)
	}
	order := eval[[]float64](p, `["verdict", "why", "partitions", "tiles", "charts"].map((id) => document.getElementById(id).getBoundingClientRect().top)`)
	if !slices.IsSorted(order) {
		t.Errorf("on a phone verdict, why, table, tiles and charts begin at %v; want them in this order", order)
	}
	p.shot("phone")
	eval[bool](p, `(document.getElementById("partitions").scrollIntoView(), true)`)
	p.shot("phone-table")
	p.click("settings")
	p.until(`document.getElementById("dialog").open`)
	p.shot("phone-dialog")
}

// grow waits for a minute of history when pictures are taken.
func grow(t *testing.T, p *tab) bool {
	t.Helper()
	if !shots() {
		return false
	}
	for range 3 {
		eventually(t, "15 s of history", func() bool {
			return eval[bool](p, `(window.since ??= performance.now(), performance.now() - window.since > 15000 && (delete window.since, true))`)
		})
	}
	return true
}

// Rows keep their places while somebody points at them, and are sorted by the
// mean of ten seconds else: nobody can click on a row that jumps.
func TestRowsAreHeldWhileHovered(t *testing.T) {
	d := start(t)
	d.load(t, "slow-one", 20)
	p := open(t, d)
	p.until(`document.querySelector("#rows .name button")?.innerText === "slow-one"`)
	p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
		at, err := chromedp.Run(ctx, chromedp.Evaluate[[]float64](`(() => {
			document.getElementById("rows").scrollIntoView({ block: "center" });
			const r = document.querySelector("#rows .name button").getBoundingClientRect();
			return [r.x + 20, r.y + r.height / 2];
		})()`))
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, tg, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: at[0], Y: at[1]})
		return err
	}))
	p.until(`document.getElementById("held").innerText !== ""`)
	d.load(t, "batch", 300) // refused: it belongs on top
	p.until(`[...document.querySelectorAll("#rows tr")].some((r) => r.innerText.startsWith("batch") && r.querySelector(".hot"))`)
	p.until(`document.getElementById("tile-rejected").innerText.includes("request rate")`)
	if got := p.text("#rows .name button"); got != "slow-one" {
		t.Errorf("the first row became %q under the pointer", got)
	}
	p.do(chromedp.Func(func(ctx context.Context, tg *chromedp.Target) error {
		_, err := cdp.Call(ctx, tg, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: 5, Y: 5})
		return err
	}))
	p.until(`document.querySelector("#rows .name button").innerText === "batch"`)
}
