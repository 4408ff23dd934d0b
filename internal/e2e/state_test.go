package e2e_test

import (
	"context"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
)

// The page tells of a refused reload, of the drain and of a daemon that went
// away, and goes on when it comes back.
func TestStates(t *testing.T) {
	d := start(t)
	p := open(t, d)
	p.until(`document.getElementById("pills").innerText.includes("config in force")`)
	good, err := os.ReadFile(d.config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, d.config, strings.Replace(string(good), "rate: 2000", "rate: -1", 1))
	p.until(`document.getElementById("pills").innerText.includes("last reload refused")`)
	if got := eval[string](p, `document.querySelector("#pills .bad").title`); !strings.Contains(got, "requests.rate") {
		t.Errorf("the pill explains itself with %q, want the key that is wrong", got)
	}
	write(t, d.config, strings.Replace(string(good), "mode: shadow", "mode: off", 1))
	p.until(`document.getElementById("pills").innerText.includes("config in force")`)
	p.until(`document.querySelectorAll("#tabs button").length === 2`)
	p.do(chromedp.Click(`#tabs button:nth-child(2)`))
	p.until(`document.getElementById("route").innerText.includes("mode off")`)

	go d.get(t.Context(), http.DefaultClient, "checkout", "/slow")
	p.do(chromedp.Click(`#tabs button:nth-child(1)`))
	p.until(`document.querySelector("#tile-inflight dd").innerText === "1"`)
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	p.until(`document.getElementById("pills").innerText.includes("draining")`)
	p.until(`document.getElementById("verdict").innerText.startsWith("Draining")`)
	p.until(`document.getElementById("pills").innerText.includes("connection lost")`)
	<-d.ended

	d.run(t)
	p.until(`document.getElementById("pills").innerText.startsWith("serving")`)
	d.load(t, "checkout", 50)
	p.do(chromedp.Click(`#tabs button:nth-child(1)`))
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
}

// A page that is turned away, because as many as may be look already, tries
// again until it is let in.
func TestTurnedAway(t *testing.T) {
	const readers = 64
	d := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range readers {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+d.admin+"/v1/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("a reader is turned away: %v", err)
		}
		defer res.Body.Close()
	}
	p := visit(t, d)
	p.until(`document.getElementById("pills").innerText.includes("connection lost")`)
	cancel()
	p.until(`document.getElementById("pills").innerText.startsWith("serving")`)
}

// Who cannot see the page gets the same: named controls, a table with headings,
// charts in words, and a word when something changes.
func TestForScreenReaders(t *testing.T) {
	d := start(t)
	d.load(t, "checkout", 50)
	p := open(t, d)
	p.until(`document.getElementById("verdict").innerText.startsWith("Everything is admitted")`)
	d.load(t, "batch", 300)
	p.until(`document.getElementById("announce").innerText === "Requests are refused: request rate"`)

	tree, err := chromedp.Call(p.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		t.Fatal(err)
	}
	names := map[string][]string{}
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil {
			continue
		}
		name := ""
		if n.Name != nil {
			name = strings.Trim(string(n.Name.Value), `"`)
		}
		role := strings.Trim(string(n.Role.Value), `"`)
		names[role] = append(names[role], name)
	}
	for _, role := range []string{"button", "tab", "combobox", "searchbox", "columnheader", "rowheader", "link", "figure"} {
		if len(names[role]) == 0 {
			t.Errorf("nothing has the role %s; roles %q", role, names)
		}
		if slices.Contains(names[role], "") {
			t.Errorf("something without a name has the role %s: %q", role, names[role])
		}
	}
	for role, want := range map[string]string{"rowheader": "batch", "table": "Partitions of the ingress", "combobox": "Time window of the charts", "figure": "Requests, per second, stacked: received "} {
		if !contains(names[role], want) {
			t.Errorf("no %s is named %q: %q", role, want, names[role])
		}
	}
}
