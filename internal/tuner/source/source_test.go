package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/admitd/admitd/internal/tuner/source"
)

// serve answers every request with what the function returns.
func serve(t *testing.T, answer func(r *http.Request) string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, answer(r))
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const exposition = `# HELP exporter_backlog_records Records that wait.
# TYPE exporter_backlog_records gauge
exporter_backlog_records{exporter="a",partition="1"} 40 1700000000000
exporter_backlog_records{exporter="a",partition="2"} 2
exporter_backlog_records{exporter="b\"\\,}",partition="1"} 5e2 # {trace_id="x"} 1
exporter_backlog_records_total 77
up 1
strange NaN
`

func TestScrape(t *testing.T) {
	url := serve(t, func(*http.Request) string { return exposition })
	for name, tc := range map[string]struct {
		metric string
		labels map[string]string
		want   float64
		err    error
	}{
		"one":               {"up", nil, 1, nil},
		"sum":               {"exporter_backlog_records", nil, 542, nil},
		"some":              {"exporter_backlog_records", map[string]string{"exporter": "a"}, 42, nil},
		"escaped":           {"exporter_backlog_records", map[string]string{"exporter": `b"\,}`}, 500, nil},
		"none of the label": {"exporter_backlog_records", map[string]string{"exporter": "c"}, 0, source.ErrAbsent},
		"no such metric":    {"exporter_backlog", nil, 0, source.ErrAbsent},
		"not a number":      {"strange", nil, math.NaN(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := &source.Scrape{Endpoint: &source.Endpoint{URL: url}, Metric: tc.metric, Labels: tc.labels}
			got, _, err := s.Read(t.Context())
			if !errors.Is(err, tc.err) || got != tc.want && !(math.IsNaN(got) && math.IsNaN(tc.want)) {
				t.Errorf("Read() = %v, %v; want %v, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// The time of a sample was ignored: one of an hour ago was trusted as one of now. Of
// several the oldest counts, and one in the future is one of now.
func TestScrapeTellsTheTimeOfASample(t *testing.T) {
	openMetrics := false
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		if openMetrics {
			w.Header().Set("Content-Type", "application/openmetrics-text; version=1.0.0")
			_, _ = fmt.Fprint(w, "a{x=\"1\"} 5 1700000000.25 # {t=\"u\"} 3 1600000000\n# EOF\n")
			return
		}
		_, _ = fmt.Fprint(w, "a{x=\"1\"} 5 1700000000250\na{x=\"2\"} 5 1700000009000\na{x=\"3\"} 1\nnone 1\nlater 1 99000000000000\nbad 1 soon\n")
	}))
	t.Cleanup(s.Close)
	for metric, want := range map[string]int64{"a": 1700000000250, "none": 0, "later": 0, "bad": -1} {
		before := time.Now()
		_, at, err := (&source.Scrape{Endpoint: &source.Endpoint{URL: s.URL}, Metric: metric}).Read(t.Context())
		switch {
		case want < 0:
			if !errors.Is(err, source.ErrForm) {
				t.Errorf("%s: %v; want ErrForm", metric, err)
			}
		case err != nil, want > 0 && at.UnixMilli() != want, want == 0 && (at.Before(before) || at.After(time.Now())):
			t.Errorf("%s was true at %v, %v; want %d, or now where that is 0", metric, at, err, want)
		}
	}
	openMetrics = true
	if _, at, err := (&source.Scrape{Endpoint: &source.Endpoint{URL: s.URL}, Metric: "a"}).Read(t.Context()); err != nil || at.UnixMilli() != 1700000000250 {
		t.Errorf("of OpenMetrics: %v, %v; want the second that it says", at, err)
	}
}

// Every signal fetched for itself what another one had just fetched.
func TestOneFetchForAllOfAnEndpoint(t *testing.T) {
	fetched := 0
	url := serve(t, func(r *http.Request) string {
		fetched++
		if strings.Contains(r.Header.Get("Accept"), "json") {
			return `{"a": {"b": 1, "c": [2, 3]}, "d": "x", "a": 9}`
		}
		return "up 1\nup{x=\"y\"} 2\ndown 4\nodd x\n"
	})
	scrapes := &source.Endpoint{URL: url, Fresh: time.Hour}
	documents := &source.Endpoint{URL: url, Fresh: time.Hour}
	var all []interface {
		Read(ctx context.Context) (float64, time.Time, error)
	}
	for _, s := range []*source.Scrape{{Metric: "up"}, {Metric: "up", Labels: map[string]string{"x": "y"}}, {Metric: "down"}, {Metric: "odd"}, {Metric: "gone"}} {
		s.Endpoint = scrapes
		scrapes.Share(s)
		all = append(all, s)
	}
	for _, path := range []string{"a.b", "a.c.*", "a.c[1]", "d", "e"} {
		d := &source.Document{Endpoint: documents, Path: path}
		documents.Share(d)
		all = append(all, d)
	}
	for round := range 2 {
		fetched = 0
		for i, want := range []float64{3, 2, 4, -1, -1, 1, 5, 3, -1, -1} {
			if got, at, err := all[i].Read(t.Context()); want < 0 && err == nil || want >= 0 && (err != nil || got != want || at.IsZero()) {
				t.Errorf("round %d, source %d: %v at %v, %v; want %v", round, i, got, at, err, want)
			}
		}
		if fetched != 2 {
			t.Errorf("round %d: fetched %d times; want once for each endpoint", round, fetched)
		}
	}
}

// measured is an answer of some size that finds out how much is held while its end
// is read.
type measured struct {
	line string
	left int
	held uint64
}

func (m *measured) Read(p []byte) (int, error) {
	if m.left == 0 {
		return 0, io.EOF
	}
	if m.left--; m.left == 0 {
		var s runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&s)
		m.held = s.HeapAlloc
	}
	return copy(p, m.line), nil
}

// An answer of 16 MiB took 600 to 870 MiB: every sample and every value was held
// until all were read. Now nothing is.
func TestAnswersAreNotHeld(t *testing.T) {
	const lines = 20_000
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	for name, m := range map[string]*measured{
		"exposition": {line: "up{instance=\"one of many\",zone=\"there\"} 1\n", left: lines},
		"document":   {line: "[1,2,3,{\"a\":\"b\"},4,5,6,[7],8],", left: lines},
	} {
		var err error
		if name == "document" {
			_, err = source.Search(io.MultiReader(strings.NewReader(`{"n":[`), m, strings.NewReader(`0],"a":7}`)), "a")
		} else {
			_, err = (&source.Scrape{Metric: "up"}).ValueOf(m)
		}
		if held := int64(m.held) - int64(before.HeapAlloc); err != nil || held > 256<<10 {
			t.Errorf("%s of %d KiB: %d KiB are held in the end, %v; want a buffer of 64 KiB", name, lines*len(m.line)>>10, held>>10, err)
		}
	}
}

// A quantile is one of what was observed since the reading before, not since the
// process began.
func TestScrapeQuantile(t *testing.T) {
	counts := [][3]int{{1000, 1000, 1000}, {1000, 1090, 1100}, {1000, 1090, 1100}, {5, 5, 5}}
	i := 0
	url := serve(t, func(*http.Request) string {
		c := counts[min(i, len(counts)-1)]
		i++
		return fmt.Sprintf("d_bucket{le=\"0.1\"} %d\nd_bucket{le=\"0.2\"} %d\nd_bucket{le=\"+Inf\"} %d\n", c[0], c[1], c[2])
	})
	s := &source.Scrape{Endpoint: &source.Endpoint{URL: url}, Metric: "d", Quantile: .45}
	if _, _, err := s.Read(t.Context()); !errors.Is(err, source.ErrAbsent) {
		t.Errorf("first Read() = %v; want ErrAbsent", err)
	}
	if v, _, err := s.Read(t.Context()); err != nil || math.Abs(v-.15) > 1e-9 {
		t.Errorf("second Read() = %v, %v; want 0.15, in the middle of the bucket", v, err)
	}
	if _, _, err := s.Read(t.Context()); !errors.Is(err, source.ErrAbsent) {
		t.Errorf("third Read() = %v; want ErrAbsent, as nothing was observed", err)
	}
	if _, _, err := s.Read(t.Context()); !errors.Is(err, source.ErrAbsent) {
		t.Errorf("Read() after a restart = %v; want ErrAbsent", err)
	}
}

func TestQuery(t *testing.T) {
	for name, tc := range map[string]struct {
		answer string
		want   float64
		err    error
	}{
		"scalar":  {`{"status":"success","data":{"resultType":"scalar","result":[1700000000.5,"3.5"]}}`, 3.5, nil},
		"vector":  {`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000.5,"7"]}]}}`, 7, nil},
		"empty":   {`{"status":"success","data":{"resultType":"vector","result":[]}}`, 0, source.ErrAbsent},
		"several": {`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"7"]},{"value":[1,"8"]}]}}`, 0, source.ErrForm},
		"matrix":  {`{"status":"success","data":{"resultType":"matrix","result":[]}}`, 0, source.ErrForm},
		"error":   {`{"status":"error","error":"parse error"}`, 0, source.ErrForm},
		"garbage": {`<html>`, 0, source.ErrForm},
	} {
		t.Run(name, func(t *testing.T) {
			var asked string
			url := serve(t, func(r *http.Request) string {
				asked = r.URL.Path + "?" + r.URL.Query().Get("query")
				return tc.answer
			})
			q := &source.Query{Endpoint: &source.Endpoint{URL: url + "/prom/"}, Query: "max(lag)"}
			got, at, err := q.Read(t.Context())
			if !errors.Is(err, tc.err) || got != tc.want {
				t.Errorf("Read() = %v, %v; want %v, %v", got, err, tc.want, tc.err)
			}
			if asked != "/prom/api/v1/query?max(lag)" {
				t.Errorf("asked %s", asked)
			}
			if err == nil && at.UnixMilli() != 1700000000500 {
				t.Errorf("at = %v; want the time of the answer", at)
			}
		})
	}
}

func TestLookup(t *testing.T) {
	const doc = `{"msgBacklog": 12, "subs": {"a.b": {"n": 3}, "c": {"n": "4.5"}}, "list": [1, {"x": true}], "none": null, "big": 1e400}`
	for path, want := range map[string]float64{
		"msgBacklog": 12, `subs["a.b"].n`: 3, "subs.c.n": 4.5, "subs.*.n": 7.5, "list[0]": 1, "list[1].x": 1,
		"nothing": -1, "subs": -1, "none": -1, "list[2]": -1, "list.x": -1, "": -1, "a..b": -1, "list[x]": -1, `subs["a`: -1, "list[0]x": -1, "big": -1, "msgBacklog.x": -1, "[0]": -1,
	} {
		got, err := source.Lookup([]byte(doc), path)
		if want < 0 && err == nil || want >= 0 && (err != nil || got != want) {
			t.Errorf("Lookup(%q) = %v, %v; want %v", path, got, err, want)
		}
	}
}

// An answer without an end, one that redirects, one that refuses and one that
// never comes all end in time and in little memory.
func TestEndpointIsBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			chunk := []byte(strings.Repeat(" ", 1<<20))
			for range 20 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		case "/redirect":
			http.Redirect(w, r, "/up", http.StatusFound)
		case "/token":
			if r.Header.Get("Authorization") == "Bearer secret" {
				_, _ = w.Write([]byte(`{"n":1}`))
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		case "/slow":
			<-r.Context().Done()
		}
	}))
	t.Cleanup(s.Close)
	read := func(path, token string) error {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if path != "/slow" {
			ctx = t.Context()
		}
		d := &source.Document{Endpoint: &source.Endpoint{URL: s.URL + path, TokenFile: token}, Path: "n"}
		defer d.Close()
		_, _, err := d.Read(ctx)
		return err
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := read("/endless", ""); !errors.Is(err, source.ErrTooLarge) {
		t.Errorf("endless: %v; want ErrTooLarge", err)
	}
	if err := read("/redirect", ""); err == nil || !strings.Contains(err.Error(), "302") {
		t.Errorf("redirect: %v; want that it is not followed", err)
	}
	if err := read("/slow", ""); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("slow: %v; want DeadlineExceeded", err)
	}
	if err := read("/token", ""); err == nil {
		t.Error("without a token: no error")
	}
	if err := read("/token", token); err != nil {
		t.Errorf("with a token: %v", err)
	}
	if err := read("/token", token+"x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("token file missing: %v; want ErrNotExist", err)
	}
}

func TestHost(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	root := fstest.MapFS{
		"proc/stat":          file("cpu  100 0 100 700 100 0 0 0 0 0\ncpu0 1 1\nprocs_running 5\n"),
		"proc/meminfo":       file("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 250 kB\n"),
		"proc/loadavg":       file("3.00 2.00 1.00 1/2 3\n"),
		"proc/pressure/io":   file("some avg10=12.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n"),
		"proc/net/dev":       file("Inter-| x\n lo: 9 0 0 0 0 0 0 0 9 0\neth0: 1000 0 0 0 0 0 0 0 500 0\n"),
		"proc/diskstats":     file(" 8 0 sda 1 0 0 0 0 0 0 0 0 1000 0\n"),
		"cg/cpu.stat":        file("usage_usec 1000000\nuser_usec 1\n"),
		"cg/cpu.max":         file("50000 100000\n"),
		"cg/memory.current":  file("600\n"),
		"cg/memory.max":      file("1000\n"),
		"cg/memory.stat":     file("anon 1\ninactive_file 100\n"),
		"cg/cpu.pressure":    file("some avg10=50.00 avg60=0.00 avg300=0.00 total=1\n"),
		"max/memory.current": file("512000\n"),
		"max/memory.max":     file("max\n"),
	}
	for name, tc := range map[string]struct {
		metric, cgroup string
		want           float64
	}{
		"memory": {"memory", "", .75}, "load": {"load", "", 1.5}, "pressure": {"psi_io", "", .125}, "run queue": {"run_queue", "", 2},
		"memory of a group": {"memory", "/cg", .5}, "pressure of a group": {"psi_cpu", "cg", .5}, "memory of a group without a bound": {"memory", "max", .5},
	} {
		t.Run(name, func(t *testing.T) {
			h := &source.Host{Metric: tc.metric, Cgroup: tc.cgroup, Root: root, CPUs: 2}
			if got, _, err := h.Read(t.Context()); err != nil || got != tc.want {
				t.Errorf("Read() = %v, %v; want %v", got, err, tc.want)
			}
		})
	}
	cpu := &source.Host{Metric: "cpu", Root: root, CPUs: 2}
	if _, _, err := cpu.Read(t.Context()); !errors.Is(err, source.ErrAbsent) {
		t.Errorf("cpu that stands still: %v; want ErrAbsent", err)
	}
	root["proc/stat"] = file("cpu  160 0 120 710 110 0 0 0 0 0\n")
	if got, _, err := cpu.Read(t.Context()); err != nil || got != .8 {
		t.Errorf("cpu = %v, %v; want 0.8", got, err)
	}
	for _, h := range []source.Host{{Metric: "psi_memory"}, {Metric: "gpu"}, {Metric: "cpu", Cgroup: "nowhere"}} {
		h.Root = root
		if _, _, err := h.Read(t.Context()); err == nil {
			t.Errorf("Read() of %+v: no error", h)
		}
	}
}

// This machine can be read, where it is a Linux.
func TestThisHost(t *testing.T) {
	if _, err := os.Stat("/proc/stat"); err != nil {
		t.Skip("no /proc here")
	}
	for _, m := range []string{"cpu", "memory", "load", "run_queue", "network", "disk"} {
		h := &source.Host{Metric: m, Root: os.DirFS("/")}
		if v, _, err := h.Read(t.Context()); err != nil && !errors.Is(err, source.ErrAbsent) || math.IsNaN(v) || v < 0 {
			t.Errorf("%s = %v, %v; want a number", m, v, err)
		}
	}
}

// What a URL's query holds may be a key, and is in no error.
func TestErrorsDoNotShowTheQuery(t *testing.T) {
	d := &source.Document{Endpoint: &source.Endpoint{URL: "http://127.0.0.1:1/x?apikey=hush"}, Path: "n"}
	if _, _, err := d.Read(t.Context()); err == nil || strings.Contains(err.Error(), "hush") || !strings.Contains(err.Error(), "127.0.0.1:1/x") {
		t.Errorf("Read() = %v; want the address without the key", err)
	}
	d.URL = "http://127.0.0.1:1/%zz?apikey=hush"
	if _, _, err := d.Read(t.Context()); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("Read() = %v; want no key", err)
	}
}

// counting counts the bodies that are open.
type counting struct{ open, asked int }

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.open++
	c.asked++
	status := http.StatusOK
	if r.URL.Path == "/bad" {
		status = http.StatusInternalServerError
	}
	return &http.Response{StatusCode: status, Header: http.Header{}, Body: &body{strings.NewReader(`{"n":1}`), c}, Request: r}, nil
}

type body struct {
	io.Reader

	of *counting
}

func (b *body) Close() error { b.of.open--; return nil }

// A body that stays open keeps its connection for ever, whatever became of it.
func TestBodiesAreClosed(t *testing.T) {
	c := &counting{}
	for _, path := range []string{"/", "/bad", "/%2e"} {
		for _, member := range []string{"n", "nothing"} {
			d := &source.Document{Endpoint: &source.Endpoint{URL: "http://h" + path, Client: &http.Client{Transport: c}}, Path: member}
			if _, _, err := d.Read(t.Context()); (err == nil) != (path != "/bad" && member == "n") {
				t.Errorf("%s of %s: %v", member, path, err)
			}
		}
	}
	if c.asked != 6 || c.open != 0 {
		t.Errorf("%d of %d bodies are open; want none", c.open, c.asked)
	}
}
