package admin_test

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
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

// With 20,000 tenants the status was 11 MB, and one open page was felt by the
// traffic. Unless more is asked for, those are told that are asked most.
func TestStatusTellsTheBusiest(t *testing.T) {
	const tenants = 2000
	d := newDaemon(&limiter.Policy{MaxPartitions: tenants})
	s := newServer(t, d, admin.Options{})
	ask := func(i int) {
		p, err := d.gate.TryAdmit(d.gate.Now(), limiter.Request{Key: fmt.Sprintf("tenant-%04d", i)})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	}
	now := time.Now()
	for second := range 3 {
		for i := range tenants {
			if second == 0 || i >= tenants-5 {
				ask(i)
			}
		}
		s.Beat(now.Add(time.Duration(second) * time.Second))
	}
	names := func(query string) (out []string) {
		for _, p := range answerOf[listed](t, s, "/v1/status"+query, 200).Ingresses[0].Partitions {
			out = append(out, p.Name)
		}
		return out
	}
	for _, query := range []string{"", "?ingress=orders"} {
		few := names(query)
		if len(few) != 102 || !slices.IsSorted(few[2:]) || !slices.Contains(few, "tenant-1999") || !slices.Contains(few, "tenant-1995") {
			t.Errorf("%q lists %d, %v; want default, overflow and a hundred by name, the busy ones among them", query, len(few), few)
		}
		if again := names(query); !slices.Equal(few, again) {
			t.Errorf("%q lists others the second time", query)
		}
	}
	for query, want := range map[string]int{"?partitions=all": tenants + 2, "?partitions=0": 0, "?find=nant-19": 100, "?find=ultra": 0, "?find=nant-&partitions=7": 7} {
		if got := names(query); len(got) != want {
			t.Errorf("%s lists %d; want %d", query, len(got), want)
		}
	}
	answerOf[listed](t, s, "/v1/status?ingress=none", 404)
	answerOf[listed](t, s, "/v1/status?partitions=many", 400)
	one := answerOf[status.Document](t, s, "/v1/status", 200).Ingresses[0]
	if one.PartitionCount != tenants+2 || one.Limit < 20*tenants {
		t.Errorf("%d partitions and a limit of %d; want what all of them have", one.PartitionCount, one.Limit)
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
	f.Add("PATCH", `{"mode":"off","partitions":{"default":{"queue":"auto","limit":{"algorithm":"knee"}}}}`)
	f.Add("PATCH", `{"requests":{"rate":-1}}{}`)
	f.Fuzz(func(t *testing.T, method, body string) {
		if method != "PATCH" {
			t.Skip("a method that no handler takes")
		}
		const path = "/v1/ingresses/orders"
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
