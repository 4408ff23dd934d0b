package e2e_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// tab is a browser's tab that shows the live page, with all that it complained
// of and asked for.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex // guards the fields below
	console  []string   // errors, warnings and exceptions
	requests []string   // URLs
}

// open shows the live page of d and waits until it shows something.
func open(t *testing.T, d *daemon) *tab {
	t.Helper()
	p := visit(t, d)
	p.until("document.querySelectorAll('#tiles .tile').length >= 5")
	return p
}

// visit loads the live page of d in a browser of its own.
func visit(t *testing.T, d *daemon) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("needs a browser: apt-get install chromium (scripts/install-test-deps.sh does)")
	}
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.Headless, chromedp.DisableGPU,
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-quic", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("disable-renderer-backgrounding", true), chromedp.Flag("force-color-profile", "srgb"),
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1360, 900), chromedp.WSURLReadTimeout(60 * time.Second),
	}
	if os.Getuid() == 0 {
		opts = append(opts, chromedp.NoSandbox)
	}
	bounded, cancelTime := context.WithTimeout(t.Context(), 3*time.Minute)
	allocated, cancelBrowser := chromedp.NewExecAllocator(bounded, opts...)
	ctx, cancelTab := chromedp.NewContext(allocated)
	t.Cleanup(func() { cancelTab(); cancelBrowser(); cancelTime() })
	p := &tab{t: t, ctx: ctx}
	if err := chromedp.Listen(ctx, p.hear); err != nil {
		t.Fatalf("chromium: %v", err)
	}
	p.do(chromedp.Navigate("http://" + d.admin + "/"))
	return p
}

// hear notes what the browser reports.
func (p *tab) hear(ev any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		p.requests = append(p.requests, ev.Request.URL)
	case *log.EventEntryAdded:
		p.console = append(p.console, string(ev.Entry.Level)+": "+ev.Entry.Text+" "+ev.Entry.URL)
	case *runtime.EventConsoleAPICalled:
		p.console = append(p.console, "console."+string(ev.Type))
	case *runtime.EventExceptionThrown:
		p.console = append(p.console, "exception: "+ev.ExceptionDetails.Text)
	}
}

// heard returns the console's lines and the URLs asked for so far.
func (p *tab) heard() (console, requests []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append(console, p.console...), append(requests, p.requests...)
}

func (p *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// eval returns the value of an expression in the page.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		p.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression in the page is true. chromedp's own Poll
// makes functions of text, which the page's content policy forbids.
func (p *tab) until(expression string) {
	p.t.Helper()
	eventually(p.t, expression, func() bool { return eval[bool](p, "Boolean("+expression+")") })
}

// click clicks the element of an id, as a user would.
func (p *tab) click(id string) {
	p.t.Helper()
	p.do(chromedp.Click("#" + id))
}

// choose gives the control of an id a value and tells the page.
func (p *tab) choose(id, value string) {
	p.t.Helper()
	if !eval[bool](p, fmt.Sprintf(`(() => {
		const e = document.getElementById(%q);
		e.value = %q;
		e.dispatchEvent(new Event("input", { bubbles: true }));
		return e.dispatchEvent(new Event("change", { bubbles: true }));
	})()`, id, value)) {
		p.t.Errorf("#%s did not take %q", id, value)
	}
}

// press presses a key that also stands for a character. chromedp's KeyEvent
// sends the character apart, which a page cannot prevent.
func (p *tab) press(key string) {
	p.t.Helper()
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
			params := input.DispatchKeyEventParams{Type: kind, Key: key}
			if kind == input.DispatchKeyEventTypeKeyDown {
				params.Text = key
			}
			if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, params); err != nil {
				return err
			}
		}
		return nil
	}))
}

// text returns the visible text of what a selector finds.
func (p *tab) text(selector string) string {
	p.t.Helper()
	return eval[string](p, `document.querySelector("`+selector+`")?.innerText ?? ""`)
}

// prefer emulates the system's choice of light or dark.
func (p *tab) prefer(scheme string) {
	p.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
}

// shot writes a picture to $ADMITD_SHOTS, if set.
func (p *tab) shot(name string) {
	p.t.Helper()
	dir := os.Getenv("ADMITD_SHOTS")
	if dir == "" {
		return
	}
	p.until(`document.getAnimations().length === 0`)
	b, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		p.t.Fatal(err)
	}
	write(p.t, dir+"/"+name+".png", string(b))
}

// shots reports whether pictures are wanted.
func shots() bool { return os.Getenv("ADMITD_SHOTS") != "" }

// ink counts the pixels of a canvas that are coloured like a series, within a
// tolerance, and how many of them lie in the right half.
func (p *tab) ink(chart, colour string) (all, right int) {
	p.t.Helper()
	n := eval[[]int](p, `(() => {
		const probe = document.createElement("i");
		probe.style.color = "var(`+colour+`)";
		document.body.append(probe);
		const want = getComputedStyle(probe).color.match(/\d+/g).slice(0, 3).map(Number);
		probe.remove();
		const c = document.getElementById("canvas-`+chart+`");
		if (!c) return [0, 0];
		const { data } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
		let all = 0, right = 0;
		for (let i = 0; i < data.length; i += 4) {
			if (data[i + 3] < 200 || want.some((v, k) => Math.abs(data[i + k] - v) > 12)) continue;
			all++;
			if ((i / 4) % c.width > c.width / 2) right++;
		}
		return [all, right];
	})()`)
	return n[0], n[1]
}

// picture returns all pixels of the chart of requests.
func (p *tab) picture() string {
	p.t.Helper()
	return eval[string](p, `document.getElementById("canvas-requests").toDataURL()`)
}

// contains reports whether any of lines holds part.
func contains(lines []string, part string) bool {
	for _, l := range lines {
		if strings.Contains(l, part) {
			return true
		}
	}
	return false
}
