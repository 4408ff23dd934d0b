package admin_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/admitd/admitd/admin"
	"github.com/admitd/admitd/limiter"
)

// listed is what a page of the status lists.
type listed struct {
	Ingresses []struct {
		Partitions []struct{ Name string }
	}
}

// With 100,000 partitions each reader of the status once cost a snapshot of all
// of them: it is paged, shared for a second, and packed for who takes that.
func TestStatusOfManyPartitions(t *testing.T) {
	d := newDaemon(&limiter.Policy{MaxPartitions: 1000})
	s := newServer(t, d, admin.Options{})
	for i := range 100 {
		p, err := d.gate.TryAdmit(d.gate.Now(), limiter.Request{Key: fmt.Sprintf("tenant-%03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	}
	seen, after := map[string]bool{}, ""
	for range 10 {
		page := decode[listed](t, (call{method: "GET", path: "/v1/status?ingress=orders&partitions=30&after=" + after}).do(t, s))
		for _, p := range page.Ingresses[0].Partitions {
			if strings.HasPrefix(p.Name, "tenant-") {
				if seen[p.Name] {
					t.Fatalf("%s is listed twice", p.Name)
				}
				seen[p.Name], after = true, p.Name
			}
		}
	}
	if len(seen) != 100 {
		t.Errorf("%d partitions on the pages; want 100", len(seen))
	}
	before := d.snapshots.Load()
	for range 50 {
		w := call{method: "GET", path: "/v1/status", header: map[string]string{"Accept-Encoding": "gzip"}}.do(t, s)
		z, err := gzip.NewReader(w.Body)
		if err != nil || w.Header().Get("Content-Encoding") != "gzip" {
			t.Fatalf("not packed: %v", err)
		}
		var whole listed
		if b, err := io.ReadAll(z); err != nil || json.Unmarshal(b, &whole) != nil || len(whole.Ingresses[0].Partitions) != 102 {
			t.Fatalf("whole status: %v, %d partitions; want 102", err, len(whole.Ingresses[0].Partitions))
		}
	}
	if n := d.snapshots.Load() - before; n > 10 {
		t.Errorf("50 readers cost %d snapshots; want one per second", n)
	}
}

// Who changed a setting and looked at the status was shown, for up to a second,
// what was true before.
func TestStatusAfterChange(t *testing.T) {
	for _, change := range []call{
		{method: "PATCH", path: "/v1/ingresses/orders", body: `{"mode":"off"}`}, {method: "POST", path: "/v1/reload"},
	} {
		d := newDaemon(&limiter.Policy{})
		s := newServer(t, d, admin.Options{})
		call{method: "GET", path: "/v1/status"}.do(t, s)
		if w := change.do(t, s); w.Code != 200 {
			t.Fatalf("%s %s = %d %s", change.method, change.path, w.Code, w.Body)
		}
		before := d.snapshots.Load()
		call{method: "GET", path: "/v1/status"}.do(t, s)
		if d.snapshots.Load() == before {
			t.Errorf("%s %s: the status that follows is the one before", change.method, change.path)
		}
	}
}

// Whatever is sent as JSON is answered and breaks nothing.
func FuzzBodies(f *testing.F) {
	f.Add("POST", `{"ingress":"orders","partition":"a","operation":"read","cost":2.5,"ttlMS":1500}`)
	f.Add("POST", `{"ingress":"orders","cost":1e400}`)
	f.Add("PATCH", `{"mode":"off","partitions":{"default":{"queue":"auto","limit":{"algorithm":"knee"}}}}`)
	f.Add("PATCH", `{"requests":{"rate":-1}}{}`)
	f.Fuzz(func(t *testing.T, method, body string) {
		path := "/v1/admissions"
		switch method {
		case "POST":
		case "PATCH":
			path = "/v1/ingresses/orders"
		default:
			t.Skip("a method that no handler takes")
		}
		s := newServer(t, newDaemon(&limiter.Policy{}), admin.Options{})
		w := call{method: method, path: path, body: body}.do(t, s)
		switch {
		case w.Code >= 500 && w.Code != 503, w.Code < 200, w.Code >= 300 && w.Code < 400:
			t.Errorf("%s %q = %d %s", method, body, w.Code, w.Body)
		case !json.Valid(w.Body.Bytes()):
			t.Errorf("%s %q is answered with what is no JSON: %s", method, body, w.Body)
		}
	})
}
