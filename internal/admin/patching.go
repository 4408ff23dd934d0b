package admin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
)

// readPatch reads what PATCH takes: a patch, or an answer of it, of which what was in
// force after is put in force again. On failure it has answered and returns false.
func readPatch(w http.ResponseWriter, r *http.Request) (p Patch, ok bool) {
	var body map[string]json.RawMessage
	if !httpjson.Read(w, r, &body) {
		return p, false
	}
	part := func(key string, into any) bool {
		d := json.NewDecoder(bytes.NewReader(body[key]))
		d.DisallowUnknownFields()
		if err := d.Decode(into); err != nil {
			httpjson.Fail(w, http.StatusBadRequest, key+" does not hold: "+httpjson.Worded(err, into))
			return false
		}
		return true
	}
	switch {
	case body == nil: // null, which says nothing
		body = map[string]json.RawMessage{}
	case len(body["after"]) == 0:
	case len(body["id"]) > 0:
		var o OverridePatch
		if !part("after", &o) {
			return p, false
		}
		return Patch{Overrides: map[string]OverridePatch{o.Key: o}}, true
	default:
		after := body["after"]
		if body = nil; json.Unmarshal(after, &body) != nil || body == nil {
			httpjson.Fail(w, http.StatusBadRequest, "after does not hold: want an object")
			return p, false
		}
	}
	if len(body["overrides"]) == 0 {
		p.Settings, _ = json.Marshal(body) // it was JSON
		return p, true
	}
	if len(body) > 1 {
		httpjson.Fail(w, http.StatusBadRequest, "overrides: want one key at a time, and nothing else beside it")
		return p, false
	}
	return p, part("overrides", &p.Overrides)
}

// ingress answers with the settings of an ingress, as a patch.
func (s *changeHandlers) ingress(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "name")
	settings, err := s.o.Settings.Ingress(name)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	tag := s.tag(name)
	w.Header().Set("ETag", tag)
	httpjson.JSON(w, http.StatusOK, map[string]any{"ingress": name, "settings": settings, "etag": tag})
}

// tag returns what changes whenever the settings of an ingress do, in the form of
// an ETag; "" when there is none of that name.
func (s *changeHandlers) tag(name string) string {
	settings, err := s.o.Settings.Ingress(name)
	if err != nil {
		return ""
	}
	var over []overrideDocument
	if s.o.Overrides != nil {
		all, _ := s.o.Overrides.Overrides(name) // it is known
		for i := range all {
			over = append(over, newOverride(&all[i]))
		}
	}
	b, err := json.Marshal([]any{settings, over})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(b)
	return `"` + hex.EncodeToString(sum[:8]) + `"`
}

// unchanged returns what checks that the settings are still those that the request
// was made for; nil when it does not say.
func (s *changeHandlers) unchanged(name string, r *http.Request) func() error {
	wanted := r.Header.Values("If-Match")
	if len(wanted) == 0 {
		return nil
	}
	return func() error {
		now := s.tag(name)
		for want := range strings.SplitSeq(strings.Join(wanted, ","), ",") {
			if want = strings.TrimSpace(want); want == "*" || now != "" && want == now {
				return nil
			}
		}
		return ErrChanged
	}
}

// patch changes one ingress while it runs. What changes nothing is no change: it
// is neither marked nor logged.
func (s *changeHandlers) patch(w http.ResponseWriter, r *http.Request) {
	p, ok := readPatch(w, r)
	if !ok {
		return
	}
	name := chi.URLParam(r, "name")
	p.By, p.Check = s.guard.who(r), s.unchanged(name, r)
	if p.Overrides != nil {
		s.override(w, r, name, p)
		return
	}
	before, after, err := s.o.Settings.Patch(r.Context(), name, p)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	if !reflect.DeepEqual(before, after) {
		s.cache.Forget()
		s.book.Mark(time.Now(), name, "settings changed by "+p.By)
	}
	tag := s.tag(name)
	w.Header().Set("ETag", tag)
	httpjson.JSON(w, http.StatusOK, struct {
		Ingress string `json:"ingress"`
		Before  any    `json:"before"`
		After   any    `json:"after"`
		ETag    string `json:"etag"`
		Pending string `json:"pending,omitempty"`
	}{name, before, after, tag, s.pending(r)})
}

// pending waits until the gates of the group have what was changed, and returns
// what to say when they have not; "" = they have.
func (s *changeHandlers) pending(r *http.Request) string {
	if s.o.Pending == nil {
		return ""
	}
	return s.o.Pending(r.Context())
}

// reload reads the configuration now, and answers with what that changed.
func (s *changeHandlers) reload(w http.ResponseWriter, r *http.Request) {
	by := s.guard.who(r)
	moves, err := s.o.Settings.Reload(r.Context(), by)
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.cache.Forget()
	s.book.Mark(time.Now(), "", "configuration reloaded by "+by)
	if moves == nil {
		moves = []Move{}
	}
	httpjson.JSON(w, http.StatusOK, struct {
		Reloaded bool   `json:"reloaded"`
		Changed  []Move `json:"changed"`
		Pending  string `json:"pending,omitempty"`
	}{true, moves, s.pending(r)})
}
