package daemon

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
)

// sources tells where settings were written. The zero value cannot tell.
type sources struct {
	mu sync.Mutex // guards the field below
	of func(path string) string
}

// read takes the content that is in force.
func (s *sources) read(path string, content []byte, env []string) {
	of := config.Sources(filepath.Base(path), content, env)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of = of
}

// tell returns where a key was written, "" when that is not known.
func (s *sources) tell(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		return ""
	}
	return s.of(path)
}

// readSources reads where the file says what is in force, if it is still the one
// that was read.
func (s *settings) readSources(loaded watch.Hash) {
	if s.path == "" {
		return
	}
	if content, err := config.Reread(s.path); err == nil && watch.HashOf(content) == loaded {
		s.sources.read(s.path, content, s.env)
	}
}

// sourceOf returns what tells where the settings of an ingress come from, as the
// verdicts ask for them.
func (s *settings) sourceOf(in *config.Ingress) func(setting, partition string) string {
	return func(setting, partition string) string {
		cfg := s.running()
		i := slices.IndexFunc(cfg.Ingresses, func(o config.Ingress) bool { return o.Name == in.Name })
		if i < 0 {
			return ""
		}
		keys, path := []string{"partitions", "total"}, "partitions.total"
		switch setting {
		case "requests.rate":
			keys, path = []string{"requests", "rate"}, setting
		case "rate":
			if s.fronts.overrides.has(in.Name, partition) {
				return "an override"
			}
			keys, path = []string{"partitions", "default", "rate"}, "partitions.default.rate"
			if j := slices.IndexFunc(cfg.Ingresses[i].Partitions.Named, func(n config.NamedPartition) bool { return n.Name == partition }); j >= 0 {
				keys, path = []string{"partitions", "named", partition, "rate"}, fmt.Sprintf("partitions.named[%d].rate", j)
			}
		}
		if slices.ContainsFunc(s.Changes(), func(c admin.Change) bool {
			return c.Ingress == in.Name && strings.Join(c.Path, "\x00") == strings.Join(keys, "\x00")
		}) {
			return "changed at run time"
		}
		return s.sources.tell(fmt.Sprintf("ingresses[%d].%s", i, path))
	}
}

// worded returns what words the override of the limit of a partition, as the verdicts ask
// for it; see [vitals.Reading].
func (o *overrides) worded(ingress string) func(partition string, key bool) string {
	return func(partition string, _ bool) string {
		o.mu.Lock()
		defer o.mu.Unlock()
		of := o.all[ingress][partition]
		for i := len(of) - 1; i >= 0; i-- {
			if of[i].Limit != nil {
				return wordOverride(&of[i])
			}
		}
		return ""
	}
}

// wordOverride says what an override does, who set it, when and until when.
func wordOverride(o *admin.Override) string {
	text := "override " + o.ID
	what := *o
	what.Until, what.For = time.Time{}, 0
	text += " (" + what.String() + ")"
	if o.By != "" {
		text += " by " + o.By
	}
	text += " at " + o.At.UTC().Format(time.TimeOnly) + " UTC"
	if o.Until.IsZero() {
		return text + ", until it is undone"
	}
	return text + ", until " + o.Until.UTC().Format(time.TimeOnly) + " UTC"
}
