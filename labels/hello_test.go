package labels_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/labels"
)

func full() labels.Hello {
	return labels.Hello{
		Role: labels.RoleSecondary, Name: "orders", SetName: "rs0", Me: "b:1", Hosts: []string{"a:1", "b:1"},
		Primary: "a:1", Term: 7, Tags: map[string]string{"rack": "2", "dc": "n\"y"}, LastWriteDate: 1700000000123,
		MinWireVersion: 1, MaxWireVersion: labels.WireVersion,
		Load: &labels.Load{InFlight: 3, Limit: 20, Headroom: 17}, Backpressure: true,
	}
}

// The bytes are what other programs read: they change only on purpose.
func TestHelloGolden(t *testing.T) {
	h := full()
	want := `{"ok":1,"role":"secondary","name":"orders","setName":"rs0","me":"b:1","hosts":["a:1","b:1"],"primary":"a:1",` +
		`"term":7,"tags":{"dc":"n\"y","rack":"2"},"lastWriteDate":1700000000123,"minWireVersion":1,"maxWireVersion":21,` +
		`"load":{"inFlight":3,"limit":20,"headroom":17},"backpressure":true}`
	if got := string(h.AppendJSON(nil)); got != want {
		t.Errorf("full document\n got %s\nwant %s", got, want)
	}
	if got, want := string(new(labels.Hello).AppendJSON(nil)),
		`{"ok":1,"role":"router","minWireVersion":0,"maxWireVersion":0,"backpressure":false}`; got != want {
		t.Errorf("zero value\n got %s\nwant %s", got, want)
	}
}

// What is written reads back to the same, whatever the strings hold.
func TestHelloRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := full()
		h.Name = rapid.String().Draw(t, "name")
		h.Me = rapid.StringN(0, 40, -1).Draw(t, "me")
		h.Term = rapid.Int64().Draw(t, "term")
		h.LastWriteDate = rapid.Int64().Draw(t, "last write")
		h.Tags = rapid.MapOfN(rapid.StringMatching(`[a-zé<&"]{1,8}`), rapid.String(), 1, 5).Draw(t, "tags")
		b := h.AppendJSON(nil)
		if !json.Valid(b) {
			t.Fatalf("not JSON: %s", b)
		}
		got, err := labels.ParseHello(b)
		if err != nil {
			t.Fatalf("ParseHello(%s): %v", b, err)
		}
		if diff := cmp.Diff(h, got); diff != "" {
			t.Errorf("round trip (-wrote +read):\n%s", diff)
		}
	})
}

func TestParseHelloRefuses(t *testing.T) {
	hosts := make([]string, labels.MaxHelloHosts+1)
	tags := map[string]string{}
	for i := range labels.MaxHelloTags + 1 {
		tags[strconv.Itoa(i)] = ""
	}
	for name, in := range map[string]string{
		"empty":          "",
		"not an object":  `["hello"]`,
		"broken":         `{"role":"primary"`,
		"wrong type":     `{"role":7}`,
		"no role":        `{"ok":1}`,
		"not ok":         `{"ok":0,"role":"primary"}`,
		"too large":      `{"role":"primary","name":"` + strings.Repeat("x", labels.MaxHello) + `"}`,
		"too many hosts": string((&labels.Hello{Hosts: hosts}).AppendJSON(nil)),
		"too many tags":  string((&labels.Hello{Tags: tags}).AppendJSON(nil)),
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := labels.ParseHello([]byte(in)); !errors.Is(err, labels.ErrNotHello) {
				t.Errorf("ParseHello = %+v, %v; want ErrNotHello", h, err)
			}
		})
	}
}

// A newer gate may use roles and fields that this client does not know.
func TestParseHelloFromTheFuture(t *testing.T) {
	h, err := labels.ParseHello([]byte(` {"role":"shepherd","sheep":12} `))
	if err != nil || h.Role != labels.RoleOther {
		t.Errorf("ParseHello = %q, %v; want role other", h.Role, err)
	}
}

func TestServeHello(t *testing.T) {
	serving := true
	h := labels.ServeHello(func() (labels.Hello, bool) { return full(), serving })
	ask := func(method string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, httptest.NewRequest(method, labels.HelloPath, http.NoBody))
		return rec
	}

	rec := ask(http.MethodGet)
	got, err := labels.ParseHello(rec.Body.Bytes())
	if diff := cmp.Diff(full(), got); diff != "" || err != nil || rec.Code != http.StatusOK {
		t.Errorf("GET: %d, %v (-want +got):\n%s", rec.Code, err, diff)
	}
	if media, cache := rec.Header().Get("Content-Type"), rec.Header().Get("Cache-Control"); media != "application/json" || cache != "no-store" {
		t.Errorf("GET: Content-Type %q, Cache-Control %q; want JSON that nobody keeps", media, cache)
	}
	if rec := ask(http.MethodPost); rec.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d, want 405", rec.Code)
	}
	serving = false
	if rec := ask(http.MethodGet); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("draining: status %d, want 503", rec.Code)
	}
}

func FuzzParseHello(f *testing.F) {
	h := full()
	f.Add(h.AppendJSON(nil))
	f.Add([]byte(`{"role":"x","tags":{"a":null},"load":{}}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		h, err := labels.ParseHello(in)
		if err != nil {
			if !errors.Is(err, labels.ErrNotHello) {
				t.Fatalf("error outside the closed set: %v", err)
			}
			return
		}
		if !h.Role.Known() || len(h.Hosts) > labels.MaxHelloHosts || len(h.Tags) > labels.MaxHelloTags {
			t.Fatalf("accepted out of bounds: %+v", h)
		}
		if out := h.AppendJSON(nil); !json.Valid(out) {
			t.Fatalf("wrote invalid JSON: %s", out)
		}
	})
}

func ExampleParseHello() {
	h, err := labels.ParseHello([]byte(`{"role":"router","load":{"inFlight":3,"limit":20,"headroom":17}}`))
	fmt.Println(h.Role, h.Load.Headroom, err)
	// Output: router 17 <nil>
}
