package target_test

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
)

// What may be another operation at the backend than here is not clear, and is read
// as the most generous backend reads it.
func TestReadings(t *testing.T) {
	for raw, want := range map[string]struct {
		clear          bool
		cleaned, loose string
	}{
		"/a/b":            {true, "/a/b", "/a/b"},
		"/a/b/":           {true, "/a/b/", "/a/b/"},
		"/a//b":           {false, "/a/b", "/a/b"},
		"/a/../b/":        {false, "/b/", "/b/"},
		"/a/./b":          {false, "/a/b", "/a/b"},
		"/a;v=1/b":        {false, "/a;v=1/b", "/a/b"},
		"/a%2fb":          {false, "/a/b", "/a/b"},
		"/x/%252e%252e/b": {false, "/x/%2e%2e/b", "/b"},
		`/x\..\b`:         {false, `/x\..\b`, "/b"},
		"/..;/b":          {false, "/..;/b", "/b"},
		"/a%23x":          {false, "/a#x", "/a"},
		"/":               {true, "/", "/"},
	} {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := target.IsClear(u); got != want.clear {
			t.Errorf("IsClear(%q) = %v", raw, got)
		}
		if got := target.Cleaned(u.Path); got != want.cleaned {
			t.Errorf("Cleaned(%q) = %q; want %q", raw, got, want.cleaned)
		}
		if got := target.Loose(u.Path); got != want.loose {
			t.Errorf("Loose(%q) = %q; want %q", raw, got, want.loose)
		}
	}
}

// What paths have in common keeps words and versions, and not the values.
func TestKin(t *testing.T) {
	for segment, want := range map[string]string{
		"orders": "orders", "v2": "v2", "v100": "{}", "17": "{}", "a1": "{}", "": "",
		"a-word-that-is-longer-than-any-is": "{}",
	} {
		if got := target.Form(segment); got != want {
			t.Errorf("Form(%q) = %q; want %q", segment, got, want)
		}
	}
	for path, want := range map[string]string{
		"/orders/17": "/orders", "/v2/orders/17": "/v2/orders", "/api/orders/17": "/api/orders", "/vx/orders": "/vx", "/orders": "/orders", "": "",
	} {
		if got := target.Family(path); got != want {
			t.Errorf("Family(%q) = %q; want %q", path, got, want)
		}
	}
}

// The first value counts, however its name is escaped.
func TestValue(t *testing.T) {
	for query, want := range map[string]string{
		"a=1&tenant=x&tenant=y": "x", "ten%61nt=x+y": "x y", "tenant=%zz": "%zz", "tenants=x": "", "tenant": "", "": "",
	} {
		if got := target.Value(query, "tenant"); got != want {
			t.Errorf("Value(%q) = %q; want %q", query, got, want)
		}
	}
}

// A pattern that a router cannot have is refused, and of those that match the most
// specific counts.
func TestOperations(t *testing.T) {
	var ops target.Operations
	if _, ok := ops.Find(http.MethodGet, "/"); ok || !ops.IsEmpty() {
		t.Error("no pattern matches")
	}
	for _, bad := range []string{"orders", "GET orders", "/a/{", "BREW /pot"} {
		if err := new(target.Operations).Add(bad, 1); err == nil {
			t.Errorf("Add(%q) = nil", bad)
		}
	}
	for i, text := range []string{"/orders/*", "POST /orders/{id}", "/orders/all"} {
		if err := ops.Add(text, float64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		method, path string
		want         float64 // 0 = none
	}{
		{http.MethodGet, "/orders/17/items", 1},
		{http.MethodPost, "/orders/17", 2},
		{http.MethodPut, "/orders/all", 3},
		{http.MethodGet, "/order", 0},
	} {
		if got, ok := ops.Find(c.method, c.path); got != c.want || ok != (c.want > 0) {
			t.Errorf("Find(%s %s) = %v, %v; want %v", c.method, c.path, got, ok, c.want)
		}
	}
}

// FuzzClear: a path that is clear is read in one way by whoever reads it.
func FuzzClear(f *testing.F) {
	for _, seed := range []string{"/a/b/", "/a;b", "/a%2e/..", "//a", "*", `/a\b`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		p := target.Cleaned(u.Path)
		if again := target.Cleaned(p); again != p {
			t.Errorf("Cleaned(%q) = %q, and that %q", u.Path, p, again)
		}
		if target.IsClear(u) && (p != u.Path || target.Loose(u.Path) != u.Path) {
			t.Errorf("%q is clear, and is read as %q and %q", u.Path, p, target.Loose(u.Path))
		}
	})
}
