package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
)

// ErrUnknownOverride says that no override has that id. Answered with 404.
var ErrUnknownOverride = errors.New("admin: no such override")

// maxKey bounds the key of an override, in bytes.
const maxKey = 1024

// Overrides change single keys for a time. Safe for concurrent use.
type Overrides interface {
	// Override changes a key, known or not, over earlier overrides of it: what it
	// does not say they do. The error may be an [*Invalid] or [ErrUnknownIngress].
	Override(ctx context.Context, ingress, key string, c OverrideChange) (Override, error)
	// Overrides lists those in force, the oldest first.
	Overrides(ingress string) ([]Override, error)
	// Undo takes one back; the error may be [ErrUnknownOverride].
	Undo(ctx context.Context, ingress, id, by string) (Override, error)
}

// OverrideChange is what an override says. What is nil stays as it was.
type OverrideChange struct {
	Rate         *float64      // requests per second, 0 = unlimited
	Block        bool          // nothing passes; Rate is then nil
	BurstSeconds *float64      // of the rate
	Limit        *int          // permits, in place of the algorithm
	For          time.Duration // 0 = until it is undone
	By           string        // who asked
	Check        func() error  // as in [Patch]
}

// Override is an override in force.
type Override struct {
	OverrideChange

	ID, Ingress, Key string
	At, Until        time.Time // Until is zero for one without an end
}

// Covers reports whether nothing of an earlier override of the same key is left,
// neither now nor later: this one says all that it says, for as long.
func (o *Override) Covers(old *Override) bool {
	switch {
	case !o.Until.IsZero() && (old.Until.IsZero() || old.Until.After(o.Until)):
		return false
	case (old.Rate != nil || old.Block) && o.Rate == nil && !o.Block, old.BurstSeconds != nil && o.BurstSeconds == nil, old.Limit != nil && o.Limit == nil:
		return false
	}
	return true
}

// Merged returns what overrides of one key come to, the oldest first.
func Merged(all []Override) (c OverrideChange) {
	for i := range all {
		v := &all[i]
		if v.Rate != nil || v.Block {
			c.Rate, c.Block = v.Rate, v.Block
		}
		if v.BurstSeconds != nil {
			c.BurstSeconds = v.BurstSeconds
		}
		if v.Limit != nil {
			c.Limit = v.Limit
		}
	}
	return c
}

// String words what the override says, in the words of the command line.
func (o *Override) String() string {
	var parts []string
	if o.Block {
		parts = append(parts, "rate=none")
	}
	switch {
	case o.Rate == nil:
	case *o.Rate == 0:
		parts = append(parts, "rate=unlimited")
	default:
		parts = append(parts, fmt.Sprintf("rate=%g", *o.Rate))
	}
	if o.BurstSeconds != nil {
		parts = append(parts, fmt.Sprintf("burstSeconds=%g", *o.BurstSeconds))
	}
	if o.Limit != nil {
		parts = append(parts, "limit="+strconv.Itoa(*o.Limit))
	}
	if !o.Until.IsZero() {
		parts = append(parts, "until "+o.Until.Format(time.RFC3339))
	}
	return strings.Join(parts, " ")
}

// OverridePatch is an override as PATCH takes it.
type OverridePatch struct {
	Rate         json.RawMessage `json:"rate,omitempty"` // a number, "unlimited" as 0 is, or "none": nothing passes
	BurstSeconds *float64        `json:"burstSeconds,omitempty"`
	Limit        *int            `json:"limit,omitempty"`
	For          string          `json:"for,omitempty"` // such as 30m; empty = until Until, or until it is undone
	Until        time.Time       `json:"until,omitzero"`

	// What an answer has besides, so that it can be sent back as it is; not read.
	ID   string    `json:"id,omitempty"`
	Key  string    `json:"key,omitempty"`
	At   time.Time `json:"at,omitzero"`
	By   string    `json:"by,omitempty"`
	Undo string    `json:"undo,omitempty"`
}

// change reads the patch of a key.
func (p *OverridePatch) change(key string) (c OverrideChange, problems []string) {
	say := func(field, what string) { problems = append(problems, wrongOverride(key, field, what)) }
	if key == "" || len(key) > maxKey {
		say("", fmt.Sprintf("a key of 1 to %d bytes is needed", maxKey))
	}
	c = OverrideChange{BurstSeconds: p.BurstSeconds, Limit: p.Limit}
	switch text := strings.TrimSpace(string(p.Rate)); text {
	case "":
	case `"none"`:
		c.Block = true
	case `"unlimited"`:
		c.Rate = new(float64)
	default:
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil || !(rate >= 0 && rate <= 1e9) {
			say("rate", "want requests per second from 0 (unlimited) to 1e9, unlimited, or none to let nothing pass ("+text+")")
		}
		c.Rate = &rate
	}
	problems = append(problems, p.bounds(key, &c)...)
	if c.Rate == nil && !c.Block && c.BurstSeconds == nil && c.Limit == nil && len(problems) == 0 {
		say("", "want a rate, a burstSeconds or a limit")
	}
	return c, problems
}

// wrongOverride says what is wrong with a field of the override of a key, or with
// all of it.
func wrongOverride(key, field, what string) string {
	switch {
	case key == "":
		return "overrides: " + what
	case field == "":
		return "overrides." + key + ": " + what
	}
	return "overrides." + key + "." + field + ": " + what
}

// bounds checks what is a number, and reads how long it is to hold.
func (p *OverridePatch) bounds(key string, c *OverrideChange) (problems []string) {
	say := func(field, what string) { problems = append(problems, wrongOverride(key, field, what)) }
	if b := p.BurstSeconds; b != nil && !(*b >= 0.001 && *b <= 86400) {
		say("burstSeconds", fmt.Sprintf("want 0.001 to 86400 (%g)", *b))
	}
	if l := p.Limit; l != nil && (*l < 1 || *l > 1_000_000) {
		say("limit", fmt.Sprintf("want 1 to 1000000 (%d)", *l))
	}
	if p.For != "" {
		d, err := time.ParseDuration(p.For)
		if err != nil || d <= 0 {
			say("for", "want a time such as 30m ("+p.For+")")
		}
		c.For = d
	} else if !p.Until.IsZero() {
		if c.For = time.Until(p.Until); c.For <= 0 {
			say("until", "is over ("+p.Until.Format(time.RFC3339)+")")
		}
	}
	return problems
}

// overrideDocument is an override as the port tells it.
type overrideDocument struct {
	ID           string    `json:"id"`
	Key          string    `json:"key"`
	Rate         any       `json:"rate,omitempty"`
	BurstSeconds *float64  `json:"burstSeconds,omitempty"`
	Limit        *int      `json:"limit,omitempty"`
	At           time.Time `json:"at"`
	Until        time.Time `json:"until,omitzero"`
	By           string    `json:"by,omitempty"`
	Undo         string    `json:"undo"` // what to ask for to take it back
}

// newOverride words an override.
func newOverride(o *Override) overrideDocument {
	d := overrideDocument{
		ID: o.ID, Key: o.Key, BurstSeconds: o.BurstSeconds, Limit: o.Limit, At: o.At, Until: o.Until, By: o.By,
		Undo: "DELETE /v1/ingresses/" + o.Ingress + "/overrides/" + o.ID,
	}
	switch {
	case o.Block:
		d.Rate = "none"
	case o.Rate != nil:
		d.Rate = *o.Rate
	}
	return d
}

// override changes one key, for a time.
func (s *changeHandlers) override(w http.ResponseWriter, r *http.Request, name string, p Patch) {
	if s.o.Overrides == nil || len(p.Overrides) != 1 {
		httpjson.Fail(w, http.StatusBadRequest, "overrides: want one key at a time, and nothing else beside it")
		return
	}
	for key, patch := range p.Overrides {
		c, problems := patch.change(key)
		if problems != nil {
			s.failWith(w, r, &Invalid{problems})
			return
		}
		before := s.overrideOf(name, key)
		c.By, c.Check = p.By, p.Check
		after, err := s.o.Overrides.Override(r.Context(), name, key, c)
		if err != nil {
			s.failWith(w, r, err)
			return
		}
		s.cache.Forget()
		s.book.Mark(time.Now(), name, "override of "+key+" by "+p.By)
		d := newOverride(&after)
		httpjson.JSON(w, http.StatusOK, struct {
			ID     string            `json:"id"`
			Before *overrideDocument `json:"before"`
			After  overrideDocument  `json:"after"`
			Undo   string            `json:"undo"`
			// Pending is why not all gates that share the rate go by it yet; "" = they do.
			Pending string `json:"pending,omitempty"`
		}{d.ID, before, d, d.Undo, s.pending(r)})
	}
}

// overrideOf returns what the overrides of a key come to, nil when it has none.
func (s *changeHandlers) overrideOf(ingress, key string) *overrideDocument {
	all, _ := s.o.Overrides.Overrides(ingress) // an unknown ingress has none
	var of []Override
	for i := range all {
		if all[i].Key == key {
			of = append(of, all[i])
		}
	}
	if len(of) == 0 {
		return nil
	}
	last := of[len(of)-1]
	last.OverrideChange = Merged(of)
	d := newOverride(&last)
	return &d
}

// overrides lists what is overridden.
func (s *changeHandlers) overrides(w http.ResponseWriter, r *http.Request) {
	if s.o.Overrides == nil {
		httpjson.Fail(w, http.StatusNotFound, "there are no overrides here")
		return
	}
	all, err := s.o.Overrides.Overrides(chi.URLParam(r, "name"))
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	out := make([]overrideDocument, 0, len(all))
	for i := range all {
		out = append(out, newOverride(&all[i]))
	}
	httpjson.JSON(w, http.StatusOK, map[string]any{"overrides": out})
}

// undo takes one override back.
func (s *changeHandlers) undo(w http.ResponseWriter, r *http.Request) {
	if s.o.Overrides == nil {
		httpjson.Fail(w, http.StatusNotFound, "there are no overrides here")
		return
	}
	name := chi.URLParam(r, "name")
	old, err := s.o.Overrides.Undo(r.Context(), name, chi.URLParam(r, "id"), s.guard.who(r))
	if err != nil {
		s.failWith(w, r, err)
		return
	}
	s.cache.Forget()
	s.book.Mark(time.Now(), name, "override of "+old.Key+" undone")
	httpjson.JSON(w, http.StatusOK, struct {
		Undone  overrideDocument `json:"undone"`
		Pending string           `json:"pending,omitempty"`
	}{newOverride(&old), s.pending(r)})
}
