package top_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/top"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/status"
)

// reading builds a status whose counts stand after seconds of a steady load.
func topReading(seconds float64) *status.Document {
	n := func(perSecond float64) uint64 { return uint64(perSecond * seconds) }
	s := &status.Document{Version: "v1", At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), UptimeSeconds: seconds}
	s.Clock.Trusted, s.Config.LastSuccessful = true, true
	s.Ingresses = []status.Ingress{{
		Name: "orders", Protocol: "http", Mode: "enforce", InFlight: 8,
		Requests: &status.Bucket{Burst: 2000, Tokens: 1500},
		Verdict:  status.Verdict{Level: "warn", Text: "Refusing 25 % of 400/s: concurrency limit, most for batch (100/s)."},
		Counts:   status.Counts{Received: n(400), Admitted: n(300), Failed: n(20), Rejected: map[labels.Reason]uint64{"concurrency_limit": n(90), "request_rate": n(10)}},
		Partitions: []status.Partition{
			{Name: "checkout", Algorithm: "vegas", Limit: 12, InFlight: 4, BaseRTTMS: 8.5, Counts: status.Counts{Received: n(200), Admitted: n(200), Succeeded: n(200), BusyMS: 12 * 200 * seconds}},
			{Name: "batch", Algorithm: "fixed", Limit: 4, InFlight: 4, Queued: 2, Counts: status.Counts{Received: n(200), Admitted: n(100), Failed: n(20), Rejected: map[labels.Reason]uint64{"concurrency_limit": n(90), "request_rate": n(10)}}},
			{Name: "idle", Algorithm: "fixed", Limit: 20, Fallback: true},
		},
	}}
	return s
}

// viewOf returns a view that has taken two readings two seconds apart.
func viewOf(order string) *top.View {
	o, _ := top.OrderOf(order)
	v := &top.View{Order: o}
	v.Take(topReading(10))
	v.Take(topReading(12))
	return v
}

func texts(lines []top.Line) []string {
	var out []string
	for _, l := range lines {
		out = append(out, strings.TrimRight(l.Text, " "))
	}
	return out
}

// What a snapshot looks like, to the character.
func TestLines(t *testing.T) {
	got := texts(viewOf("rejected").Lines(0, 0))
	want := []string{
		"admitd v1  up 12s  serving, clock trusted, config in force  03:04:05",
		"orders           http enforce  admitted 300/s  refused 100/s (25 %, concurrency limit)  FAILED 20/s  in flight 8  tokens 1500 of 2000",
		"  Refusing 25 % of 400/s: concurrency limit, most for batch (100/s).",
		"",
		"PARTITION              REF/s SHARE  FAIL/s   ADM/s FLIGHT LIMIT   USE QUEUED     RTT    BASE ALGORITHM   MOSTLY FOR",
		"batch                    100   50%      20     100      4     4  100%      2       -       - fixed       concurrency limit",
		"checkout                   0    0%       0     200      4    12   33%      0    12ms  8.50ms vegas       -",
		"idle                       0     -       0       0      0    20    0%      0       -       - fixed*      -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// At 80 columns the latency without load and the reason are still there: they
// used to be cut off.
func TestNarrow(t *testing.T) {
	for _, l := range viewOf("rejected").Lines(80, 0)[4:6] {
		if n := len([]rune(l.Text)); n > 80 {
			t.Errorf("%d characters: %q", n, l.Text)
		}
	}
	got := texts(viewOf("rejected").Lines(80, 0))[4:7]
	want := []string{
		"PARTITION        REF/s FAIL/s  ADM/s FLIGHT/L    RTT   BASE  MOSTLY FOR",
		"batch              100     20    100      4/4      -      -  concurrency limit",
		"checkout             0      0    200     4/12   12ms 8.50ms  -",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

// The colours mean the same here as on the page: red is for callers that fail
// through nobody's wish, yellow for those who are refused as configured.
func TestColours(t *testing.T) {
	v := viewOf("name")
	style := func(part string) string {
		for _, l := range v.Lines(0, 0) {
			if strings.HasPrefix(strings.TrimSpace(l.Text), part) {
				return l.Style
			}
		}
		return "no such line"
	}
	if style("Refusing") != top.Yellow || style("batch") != top.Red || style("checkout") != "" {
		t.Errorf("verdict %q, a row that fails %q, one that does not %q", style("Refusing"), style("batch"), style("checkout"))
	}
	v.Now().Ingresses[0].Verdict = status.Verdict{Level: "bad", Text: "Backend answers nothing"}
	if style("Backend answers") != top.Red {
		t.Errorf("a dead backend in the style %q", style("Backend answers"))
	}
}

// With several ingresses each row says whose it is.
func TestNamesIngresses(t *testing.T) {
	v := viewOf("name")
	v.Now().Ingresses = append(v.Now().Ingresses, status.Ingress{Name: "a-very-long-name", Partitions: []status.Partition{{Name: "default"}}})
	got := texts(v.Lines(0, 0))
	if !strings.HasPrefix(got[5], "INGRESS      PARTITION ") || !strings.HasPrefix(got[6], "orders       batch ") || !strings.HasPrefix(got[8], "a-very-long… default ") {
		t.Errorf("lines %q", got[4:])
	}
}

// What nobody has asked of yet is no row of its own: an overflow that is not in
// use once stood in every table, with a limit that says nothing.
func TestUnusedOverflowIsNoRow(t *testing.T) {
	v := viewOf("name")
	v.Now().Ingresses = append(v.Now().Ingresses,
		status.Ingress{Name: "idle", Partitions: []status.Partition{{Name: "overflow"}}},
		status.Ingress{Name: "full", Partitions: []status.Partition{{Name: "overflow", Counts: status.Counts{Received: 1}}}})
	got := strings.Join(texts(v.Lines(0, 0)), "\n")
	if strings.Contains(got, "idle         overflow") || !strings.Contains(got, "full         overflow") {
		t.Errorf("lines\n%s", got)
	}
}

// States of the daemon that an operator must not overlook.
func TestSummary(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(s *status.Document)
		want   string
		style  string
	}{
		"well":            {func(*status.Document) {}, "serving, clock trusted, config in force", top.Bold},
		"draining":        {func(s *status.Document) { s.Draining = true }, "DRAINING", top.Red},
		"clock":           {func(s *status.Document) { s.Clock.Trusted = false; s.Clock.Detail = "frozen" }, "CLOCK NOT TRUSTED (frozen)", top.Yellow},
		"reload":          {func(s *status.Document) { s.Config.LastSuccessful = false }, "LAST RELOAD REFUSED", top.Yellow},
		"escape sequence": {func(s *status.Document) { s.Version = "\x1b]0;x\a" }, "admitd ?]0;x?", top.Bold},
	} {
		t.Run(name, func(t *testing.T) {
			s := topReading(12)
			tc.change(s)
			v := &top.View{}
			v.Take(s)
			if got := v.Lines(0, 0)[0]; !strings.Contains(got.Text, tc.want) || got.Style != tc.style {
				t.Errorf("first line %q in style %s, want %q in %s", got.Text, got.Style, tc.want, tc.style)
			}
		})
	}
}

// Each order has a key; the same key again turns it.
func TestOrder(t *testing.T) {
	for name, tc := range map[string]struct {
		keys []string
		want string
	}{
		"rejected":       {[]string{"r"}, "checkout idle batch"}, // the second time: turned
		"admitted":       {[]string{"a"}, "checkout batch idle"},
		"use":            {[]string{"u"}, "batch checkout idle"},
		"in flight":      {[]string{"i"}, "batch checkout idle"}, // a tie: by requests, then by name
		"limit":          {[]string{"l"}, "idle checkout batch"},
		"queued":         {[]string{"w"}, "batch checkout idle"},
		"rtt":            {[]string{"t"}, "checkout batch idle"},
		"name":           {[]string{"n"}, "batch checkout idle"},
		"name, turned":   {[]string{"n", "n"}, "idle checkout batch"},
		"and back again": {[]string{"n", "n", "n"}, "batch checkout idle"},
		"unknown key":    {[]string{"z"}, "batch checkout idle"},
	} {
		t.Run(name, func(t *testing.T) {
			v := viewOf("rejected")
			for _, k := range tc.keys {
				if v.Key(k) {
					t.Fatalf("key %q quits", k)
				}
			}
			if g := strings.Join(v.RowNames(), " "); g != tc.want {
				t.Errorf("order %q, want %q", g, tc.want)
			}
		})
	}
	for _, k := range []string{"q", "Q", "\x03", "\x04"} {
		if !viewOf("name").Key(k) {
			t.Errorf("key %q does not quit", k)
		}
	}
}

// Whatever the size of the terminal, nothing is wider or higher.
func TestFits(t *testing.T) {
	v := viewOf("name")
	for i := range 1000 {
		v.Now().Ingresses[0].Partitions = append(v.Now().Ingresses[0].Partitions, status.Partition{Name: fmt.Sprintf("tenant-%04d-ü", i), Limit: 5})
	}
	for width := 1; width < 200; width += 7 {
		for height := 1; height < 60; height += 3 {
			lines := v.Lines(width, height)
			if len(lines) > height {
				t.Fatalf("%d lines on a terminal of %d×%d", len(lines), width, height)
			}
			for _, l := range lines {
				if n := len([]rune(l.Text)); n > width {
					t.Fatalf("%d characters on a terminal of %d×%d: %q", n, width, height, l.Text)
				}
			}
		}
	}
	last := func() string {
		lines := v.Lines(80, 24)
		return lines[len(lines)-2].Text
	}
	v.Key("\x1b[F")
	if got := last(); !strings.Contains(got, "tenant-0999") {
		t.Errorf("after End the last row is %q", got)
	}
	v.Key("\x1b[H")
	v.Key("\x1b[A") // beyond the top
	if got := v.Lines(80, 24)[5].Text; !strings.Contains(got, "batch") {
		t.Errorf("after Home the first row is %q", got)
	}
	v.Key("\x1b[6~")
	v.Key("\x1b[5~")
	v.Key("j")
	for _, l := range v.Lines(80, 24)[5:] {
		if pointed := strings.Contains(l.Style, "7"); pointed != strings.HasPrefix(l.Text, "checkout") {
			t.Errorf("one down, %q has the style %q; want checkout to be pointed at, and nothing else", l.Text, l.Style)
		}
	}
}

// The verdict is read whole on a terminal of 80 columns, where its end used to be cut off,
// and names of wide characters leave every line where it belongs.
func TestWideAndLong(t *testing.T) {
	v := viewOf("name")
	const verdict = "Refusing 50 % of 200/s: concurrency limit, the total of 12 permits is used up; most asked for by tenant-5 (95/s refused). Backend at 12.0 ms, 1.2× its base."
	v.Now().Ingresses[0].Verdict.Text = verdict
	v.Now().Ingresses[0].Partitions[0].Name = strings.Repeat("🚀", 20) + "\u2764\ufe0f"
	lines := texts(v.Lines(80, 24))
	if got := strings.Join(strings.Fields(strings.Join(lines, " ")), " "); !strings.Contains(got, verdict) {
		t.Errorf("the verdict is not whole: %q", lines)
	}
	i := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "🚀") })
	if i < 0 || !strings.HasPrefix(lines[i], "🚀🚀🚀🚀🚀🚀🚀… ") || len([]rune(lines[i])) > 80-7 {
		t.Errorf("line %d of %q; want seven rockets, which take fourteen columns, and a mark", i, lines)
	}
}

// A name from a client moves no cursor and sets no title.
func TestNamesAreHarmless(t *testing.T) {
	v := viewOf("name")
	v.Now().Ingresses[0].Partitions[0].Name = "\x1b[2J\u009b31m\r\nevil\xff\u202e" + strings.Repeat("x", 50)
	for _, l := range v.Lines(0, 0) {
		for _, r := range l.Text {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x202e {
				t.Errorf("character %U in %q", r, l.Text)
			}
		}
	}
}

// Rates need two readings of one run.
func TestRates(t *testing.T) {
	for name, tc := range map[string]struct {
		old     *status.Counts
		seconds float64
		want    top.Rates
	}{
		"two readings":   {&status.Counts{Received: 100, Admitted: 50, Rejected: map[labels.Reason]uint64{"draining": 50}}, 2, top.RatesOf(50, 25, 25, "draining")},
		"one reading":    {nil, 2, top.Rates{}},
		"no time passed": {&status.Counts{}, 0, top.Rates{}},
		"after restart":  {&status.Counts{Received: 10_000}, 2, top.Rates{}},
	} {
		t.Run(name, func(t *testing.T) {
			now := status.Counts{Received: 200, Admitted: 100, Rejected: map[labels.Reason]uint64{"draining": 100}}
			if got := top.Since(&now, tc.old, tc.seconds); got != tc.want {
				t.Errorf("since = %+v, want %+v", got, tc.want)
			}
		})
	}
}

// A pause keeps the reading; a failure is told and keeps it too.
func TestKeepsWhatItHas(t *testing.T) {
	v := viewOf("rejected")
	before := texts(v.Lines(0, 0))
	v.Key("p")
	v.Take(topReading(100))
	v.Failure, v.Silence = errors.New("top: connection refused"), 12*time.Second
	got := texts(v.Lines(0, 0))
	want := append(before[:2:2], append([]string{"top: connection refused; trying again", "No link to the gate: last seen 03:04:05, 12 s ago"}, before[3:]...)...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s\nwant those from before without a verdict, and the failure", diff)
	}
	for i, l := range v.Lines(0, 0) {
		if told := i == 2 || i == 3; told != (l.Style == top.Red) || !told && l.Style != "2" {
			t.Errorf("line %d has the style %q: what is of the past must be dimmed", i, l.Style)
		}
	}
	if help := v.Lines(80, 24); !strings.HasPrefix(help[len(help)-1].Text, "PAUSED") {
		t.Errorf("help %q", help[len(help)-1].Text)
	}
	if got := (&top.View{}).Lines(80, 24)[0].Text; !strings.Contains(got, "reading") {
		t.Errorf("before the first reading: %q", got)
	}
}

func TestSplitKeys(t *testing.T) {
	for in, want := range map[string][]string{
		"":               nil,
		"q":              {"q"},
		"ab":             {"a", "b"},
		"\x1b[Aq":        {"\x1b[A", "q"},
		"\x1b[5~\x1b[6~": {"\x1b[5~", "\x1b[6~"},
		"\x1b[":          {"\x1b["},
		"\x1bq":          {"\x1b", "q"},
	} {
		if got := top.SplitKeys(in); !cmp.Equal(got, want) {
			t.Errorf("SplitKeys(%q) = %q, want %q", in, got, want)
		}
	}
}

// Piped, top prints one snapshot without a single escape sequence and ends.
func TestPiped(t *testing.T) {
	requests := 0
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		if r.URL.Path != "/v1/status" || r.URL.Query().Get("ingress") != "orders" || r.Header.Get("Authorization") != "Bearer geheim" {
			http.Error(w, `{"detail": "not so"}`, http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"version": "v1", "uptimeSeconds": %d, "clock": {"trusted": true}, "config": {"lastSuccessful": true}, "ingresses": [
			{"name": "orders", "counts": {"received": %d, "admitted": %d}, "partitions": [{"name": "checkout", "limit": 5, "counts": {"received": %[2]d, "admitted": %[3]d}}]}]}`,
			10*requests, 500*requests, 500*requests)
	}))
	defer admin.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("# on call\n\nalice geheim\nbob another\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	o := top.Options{Admin: admin.URL, Ingress: "orders", Sort: "rejected", Interval: 100 * time.Millisecond, TokenFile: token}
	if err := top.Run(t.Context(), &out, o); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); !strings.Contains(got, "checkout") || !strings.Contains(got, "admitted 50.0/s") && !strings.Contains(got, "admitted 50/s") || strings.Contains(got, "\x1b") {
		t.Errorf("output %q", got)
	}
	if requests != 2 {
		t.Errorf("%d requests, want 2: rates need two readings", requests)
	}
}

// What cannot work is said in one line that names the value.
func TestRefuses(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }))
	defer other.Close()
	no := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail": "no such ingress"}`)
	}))
	defer no.Close()
	for name, tc := range map[string]struct {
		change func(o *top.Options)
		want   string
	}{
		"order":        {func(o *top.Options) { o.Sort = "colour" }, "(colour)"},
		"interval":     {func(o *top.Options) { o.Interval = time.Millisecond }, "(1ms)"},
		"url":          {func(o *top.Options) { o.Admin = "ftp://x" }, "(ftp://x)"},
		"token file":   {func(o *top.Options) { o.TokenFile = "/nowhere/token" }, "/nowhere/token"},
		"nobody there": {func(o *top.Options) { o.Admin = gone.URL }, "connection refused"},
		"not admitd":   {func(o *top.Options) { o.Admin = other.URL }, "does not answer with a status"},
		"no ingress":   {func(o *top.Options) { o.Admin = no.URL }, "404 Not Found no such ingress"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			o := top.Options{Admin: "http://127.0.0.1:1", Sort: "rejected", Interval: 100 * time.Millisecond, Once: true}
			tc.change(&o)
			err := top.Run(t.Context(), &out, o)
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v, want one line with %q", err, tc.want)
			}
		})
	}
}

// A search narrows the rows, Enter says why, o who asks, Tab one ingress after the
// other; Backspace goes back.
func TestPlaces(t *testing.T) {
	v := viewOf("name")
	now := v.Now()
	now.Ingresses[0].Partitions[0].Explain = "The limit of checkout is 12; it fell because latency rose."
	now.Ingresses[0].Partitions[1].Name = "it's <batch>"
	now.Ingresses[0].Top = map[string][]status.Asker{"client": {{Name: "10.0.0.7\x1b[2J", Received: 120, Refused: 3}}}
	now.Ingresses = append(now.Ingresses, status.Ingress{Name: "search", Partitions: []status.Partition{{Name: "default"}}})
	keys := func(all ...string) string {
		t.Helper()
		for _, k := range all {
			if v.Key(k) {
				t.Fatalf("key %q quits", k)
			}
		}
		return strings.Join(texts(v.Lines(100, 24)), "\n")
	}
	has := func(when, got string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", when, want, got)
			}
		}
	}
	got := keys("/", "q", "x", "\x7f", "\x7f", "C", "h", "e")
	if names := v.RowNames(); len(names) != 1 || names[0] != "checkout" || v.Search() != "Che" {
		t.Errorf("searching Che: %q", names)
	}
	has("searching", got, "search: Che")
	has("detail", keys("\r", "\r"), "orders / checkout", "The limit of checkout is 12; it fell because latency rose.", "admitd set orders checkout limit=24 --for 30m")
	has("back, and all", keys("\x7f", "\x7f"), "it's <batch>", "idle")
	has("a name for a shell", keys("\x1b[F", "\r"), `admitd set orders 'it'\''s <batch>' limit=8`)
	has("who asks", keys("o"), "client", "120", "10.0.0.7?[2J")
	has("the table again", keys("o"), "PARTITION")
	if keys("\t"); strings.Join(v.RowNames(), " ") != "checkout idle it's <batch>" {
		t.Errorf("the first ingress: %q", v.RowNames())
	}
	if keys("\t"); strings.Join(v.RowNames(), " ") != "default" {
		t.Errorf("the second ingress: %q", v.RowNames())
	}
	if keys("\t"); len(v.RowNames()) != 4 {
		t.Errorf("all ingresses: %q", v.RowNames())
	}
}

// A tenant that was not listed before has no rate yet: it used to be told all
// that it ever asked as the rate of one second.
func TestNewlyListed(t *testing.T) {
	v := viewOf("name")
	p := &v.Now().Ingresses[0].Partitions
	*p = append(*p, status.Partition{Name: "zoe", Counts: status.Counts{Received: 1e6, Admitted: 1e6}})
	lines := texts(v.Lines(0, 0))
	if got := strings.Fields(lines[len(lines)-1]); got[0] != "zoe" || got[4] != "0" {
		t.Errorf("the row of who was not listed before: %q; want 0/s", got)
	}
}

// One snapshot is bounded; the classes, the fleet, the tuner and candidates are
// told where they exist.
func TestOnceIsBounded(t *testing.T) {
	v := viewOf("name")
	v.Rows = 2
	v.Now().Fleet = &status.Fleet{Group: "eu", Gates: 3, QuotaCount: 2, Mode: "fair", Problem: "redis does not answer", Differs: []status.FleetRate{
		{Name: "billing", PerSecond: 5, OwnPerSecond: 9, By: "b", Source: "runtime"}, {Name: "orders", PerSecond: 50, OwnPerSecond: 100, By: "b\x1b", Source: "file"},
	}}
	v.Now().Ingresses[0].Classes = &status.Classes{Counts: []status.ClassCount{{Class: "critical", Admitted: 20}, {Class: "sheddable", Admitted: 2, Shed: 8}}}
	v.Now().Shadow = []status.Candidate{{Name: "wider", Ingress: "orders", RejectedShare: 0.25, EnforcedShare: 0.5, P99MS: 80}}
	was, is := 100.0, 90.0
	v.Now().Tuner = &status.Tuner{
		Mode: "act", Policies: 2, Held: []string{"lag-guard"}, Changes: 3, Reverts: 1,
		Last: &status.TunerMove{At: v.Now().At.Add(-12 * time.Second), Kind: "change", Setting: "orders.requests.rate", Old: &was, New: &is},
	}
	got := texts(v.Lines(0, 0))
	all := strings.Join(got, "\n")
	for _, want := range []string{
		"tuner act: 2 policies, 3 changes, 1 taken back, held: lag-guard; change 12s ago: orders.requests.rate 100 → 90",
		"fleet eu: 3 gates, 2 shared rates, this gate goes by: fair  redis does not answer", "files of gates differ: orders is 50/s by the file of gate b?, 100/s by this gate's", "classes  critical 10/s  sheddable 1.0/s (4.0/s shed)",
		"candidate wider of orders: would refuse 25 % (50 % are), 0 % of it for nothing, p99 80ms", "and 1 more: --rows 0 lists all",
	} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	if strings.Contains(all, "idle ") {
		t.Errorf("more than two rows:\n%s", all)
	}
}
