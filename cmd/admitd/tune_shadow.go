package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/admitd/admitd/status"
)

func (o *tuneFlags) candidates(ctx context.Context, _ []string) error {
	var answer struct{ Candidates []status.Candidate }
	if done, err := o.ask(ctx, http.MethodGet, "/v1/shadow", &answer); done || err != nil {
		return err
	}
	if len(answer.Candidates) == 0 {
		return o.say("no candidates: the configuration has none under shadow")
	}
	w := tabwriter.NewWriter(o.s.out, 0, 4, 2, ' ', 0)
	_, _ = fmt.Fprint(w, "CANDIDATE\tINGRESS\tWOULD REFUSE\tFOR NOTHING\tREFUSED IN TRUTH\tP99\tLIMIT\tNOTES\n")
	for i := range answer.Candidates {
		c := &answer.Candidates[i]
		_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.3gms\t%d\t%s\n", c.Name, c.Ingress, percent(c.RejectedShare), percent(c.ForNothingShare),
			percent(c.EnforcedShare), c.P99MS, c.Limit, notesOf(c))
	}
	return w.Flush()
}

// notesOf says how far a candidate can be believed.
func notesOf(c *status.Candidate) string {
	var notes []string
	if c.Warming {
		notes = append(notes, "too little seen of the backend yet")
	}
	if c.BeyondShare > 0.1 {
		notes = append(notes, percent(c.BeyondShare)+" of it with more or less in flight than was ever seen: a guess")
	}
	if c.Lost > 0 {
		notes = append(notes, fmt.Sprintf("%d records lost", c.Lost))
	}
	return strings.Join(notes, "; ")
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func (o *tuneFlags) promote(ctx context.Context, args []string) error {
	var answer struct{ ID, Ingress string }
	if done, err := o.ask(ctx, http.MethodPost, "/v1/shadow/"+url.PathEscape(args[0])+"/promote", &answer); done || err != nil {
		return err
	}
	return o.say(args[0] + " is in force on " + answer.Ingress + " until the next reload: write it into the configuration to keep it, or take it back with 'admitd tune demote " + answer.ID + "'")
}

func (o *tuneFlags) demote(ctx context.Context, args []string) error {
	var answer struct{ Candidate, Ingress string }
	if done, err := o.ask(ctx, http.MethodDelete, "/v1/shadow/promotions/"+url.PathEscape(args[0]), &answer); done || err != nil {
		return err
	}
	return o.say(answer.Candidate + " is not in force on " + answer.Ingress + " any more")
}
