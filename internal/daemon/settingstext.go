package daemon

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
)

// worded remembers the settings of ingresses in words, which take a while to make
// and are asked for every second. The zero value is ready.
type settingsText struct {
	mu  sync.Mutex // guards the field below
	all map[string]ingressText
}

type ingressText struct {
	in   *config.Ingress // which never changes
	text any
}

// of returns the settings of an ingress.
func (w *settingsText) of(in *config.Ingress) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	if old, ok := w.all[in.Name]; ok && old.in == in {
		return old.text
	}
	if w.all == nil {
		w.all = map[string]ingressText{}
	}
	w.all[in.Name] = ingressText{in, in.Runtime()}
	return w.all[in.Name].text
}

// Changes implements [admin.Settings].
func (s *settings) Changes() []admin.Change {
	s.fronts.mu.RLock()
	defer s.fronts.mu.RUnlock()
	return append([]admin.Change{}, s.fronts.changes...)
}

// changesOf returns what differs between a configuration as it was read and the
// one in force.
func changesOf(read, now *config.Config) (all []admin.Change) {
	if read == now || read == nil {
		return nil
	}
	for i := range now.Ingresses {
		in := &now.Ingresses[i]
		j := slices.IndexFunc(read.Ingresses, func(o config.Ingress) bool { return o.Name == in.Name })
		if j >= 0 && !reflect.DeepEqual(read.Ingresses[j], *in) {
			d := difference{ingress: in.Name}
			d.below(nil, read.Ingresses[j].Runtime(), in.Runtime())
			all = append(all, d.found...)
		}
	}
	return all
}

// movesOf returns what differs between two configurations, without secrets.
func movesOf(before, after *config.Config) []admin.Move {
	var docs [2]any
	for i, cfg := range []*config.Config{before, after} {
		b, err := cfg.Effective()
		if err != nil || json.Unmarshal(b, &docs[i]) != nil {
			return nil // it is in force; what it changed cannot be told
		}
	}
	d := difference{}
	d.below(nil, docs[0], docs[1])
	return d.moves()
}

// moves words what was found, each by its path.
func (d *difference) moves() []admin.Move {
	all := make([]admin.Move, 0, len(d.found))
	for _, c := range d.found {
		path := c.Path
		if d.ingress != "" {
			path = append([]string{"ingresses", d.ingress}, path...)
		}
		all = append(all, admin.Move{Setting: strings.Join(path, "."), Before: c.File, After: c.Now})
	}
	return all
}

// difference collects what differs in one ingress.
type difference struct {
	ingress string
	found   []admin.Change
}

// below compares two settings under a path. Lists are compared by the names of
// what is in them.
func (d *difference) below(path []string, file, now any) {
	before, parted := parts(file)
	after, both := parts(now)
	if !parted || !both {
		if !reflect.DeepEqual(file, now) {
			d.found = append(d.found, admin.Change{Ingress: d.ingress, Path: slices.Clone(path), File: file, Now: now})
		}
		return
	}
	names := maps.Clone(before)
	maps.Copy(names, after)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.below(append(path, name), before[name], after[name])
	}
}

// parts returns what a setting consists of, by name; false for a plain value.
func parts(v any) (map[string]any, bool) {
	switch v := v.(type) {
	case map[string]any:
		return v, true
	case []any:
		out := make(map[string]any, len(v))
		for i, e := range v {
			name := strconv.Itoa(i)
			if m, ok := e.(map[string]any); ok {
				if s, ok := m["name"].(string); ok {
					name = s
				}
			}
			out[name] = e
		}
		return out, true
	default:
		return nil, false
	}
}
