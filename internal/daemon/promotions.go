package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"

	"github.com/admitd/admitd/internal/admin"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/status"
)

// maxPromotions bounds those that can be taken back; the oldest are forgotten.
const maxPromotions = 64

// promotions are the candidates that were put in force and can be taken back.
// They are guarded by the lock of all changes. It implements [admin.Shadow].
type promotions struct {
	settings *settings

	list []promotion
	last int // ID given last
}

// promotion is one of them: the ingress before and after.
type promotion struct {
	id, candidate string
	was, is       *config.Ingress
}

// Candidates implements [admin.Shadow].
func (all *promotions) Candidates() []status.Candidate { return all.settings.fronts.stages.reports("") }

// Promote implements [admin.Shadow]: what a candidate changes goes through the
// same door as a patch.
func (all *promotions) Promote(ctx context.Context, name string) (admin.Promotion, error) {
	s := all.settings
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	cfg := s.running()
	i := slices.IndexFunc(cfg.Shadow, func(c config.Shadow) bool { return c.Name == name })
	if i < 0 {
		return admin.Promotion{}, fmt.Errorf("%w: there is no candidate %s", admin.ErrNotFound, name)
	}
	c := &cfg.Shadow[i]
	document, err := c.Document()
	if err != nil {
		return admin.Promotion{}, err
	}
	was := s.fronts.ingress(c.Ingress)
	before, after, err := s.patchBy(ctx, c.Ingress, document, "promotion of "+c.Name)
	if err != nil {
		return admin.Promotion{}, err
	}
	all.last++
	p := promotion{id: "p" + strconv.Itoa(all.last), candidate: name, was: was, is: s.fronts.ingress(c.Ingress)}
	all.list = append(all.list[max(0, len(all.list)-maxPromotions+1):], p)
	s.log.Info("candidate is in force until the next reload", slog.String("candidate", name), slog.String("ingress", c.Ingress), slog.String("id", p.id))
	return admin.Promotion{ID: p.id, Candidate: name, Ingress: c.Ingress, Before: before, After: after}, nil
}

// Demote implements [admin.Shadow]: what a candidate may change is as it was
// before, unless somebody changed it since.
func (all *promotions) Demote(ctx context.Context, id string) (admin.Promotion, error) {
	s := all.settings
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	i := slices.IndexFunc(all.list, func(p promotion) bool { return p.id == id })
	if i < 0 {
		return admin.Promotion{}, fmt.Errorf("%w: there is no promotion %s", admin.ErrNotFound, id)
	}
	p := all.list[i]
	now := s.fronts.ingress(p.is.Name)
	if now == nil || !reflect.DeepEqual(now.Requests, p.is.Requests) || !reflect.DeepEqual(now.Partitions, p.is.Partitions) {
		return admin.Promotion{}, fmt.Errorf("%w: the settings of %s were changed since, by a reload or by somebody", admin.ErrConflict, p.is.Name)
	}
	next := *s.running()
	next.Ingresses = slices.Clone(next.Ingresses)
	for k := range next.Ingresses {
		if in := &next.Ingresses[k]; in.Name == now.Name {
			in.Requests, in.Partitions = p.was.Requests, p.was.Partitions
		}
	}
	if err := s.fronts.apply(ctx, &next, false); err != nil {
		return admin.Promotion{}, notApplied(err)
	}
	all.list = slices.Delete(all.list, i, i+1)
	out := admin.Promotion{ID: id, Candidate: p.candidate, Ingress: now.Name, Before: now.Runtime(), After: s.fronts.ingress(now.Name).Runtime()}
	d := difference{ingress: now.Name}
	d.below(nil, out.Before, out.After)
	s.audit(d.moves(), "promotion of "+p.candidate+" taken back")
	return out, nil
}
