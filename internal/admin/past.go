package admin

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/history"
	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// explain answers why the limit of a partition is what it is; without a key, of
// the partition "default".
func (s *readHandlers) explain(w http.ResponseWriter, r *http.Request) {
	key := chi.URLParam(r, "*")
	if plain, err := url.PathUnescape(key); err == nil && r.URL.RawPath != "" {
		key = plain // the router kept what was escaped
	}
	if key == "" {
		key = limiter.DefaultPartition
	}
	key = limiter.KeyName(key)
	e, ok := s.book.Explain(chi.URLParam(r, "ingress"), key, time.Now())
	if !ok {
		if !slices.Contains(s.book.Names(), chi.URLParam(r, "ingress")) {
			s.noIngress(w)
			return
		}
		httpjson.Fail(w, http.StatusNotFound, fmt.Sprintf("nobody has asked for the partition %q", key))
		return
	}
	d := status.Explanation{
		Ingress: e.Ingress, Partition: e.Partition, Text: e.Text, Limit: e.Limit, InFlight: e.InFlight,
		Changes: make([]status.Change, 0, len(e.Changes)),
	}
	if b := e.Baseline; b.RTT > 0 {
		d.Baseline = &status.Baseline{MS: float64(b.RTT) / float64(time.Millisecond), Learned: b.Learned.UTC(), InFlight: b.InFlight, Kept: b.Kept}
	}
	for _, c := range e.Changes {
		d.Changes = append(d.Changes, status.Change{At: c.At.UTC(), From: c.From, To: c.To, Why: c.Why, Meaning: history.Words(c.Why), By: c.By})
	}
	httpjson.Packed(w, r, d)
}

// history answers what happened in the last half hour. ?ingress= narrows it to
// one; ?since= is a time (RFC 3339) or how long ago, such as 5m.
func (s *readHandlers) history(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	after := now.Add(-history.Kept)
	if q := r.URL.Query().Get("since"); q != "" {
		at, err := time.Parse(time.RFC3339, q)
		if ago, bad := time.ParseDuration(q); bad == nil && ago >= 0 {
			at, err = now.Add(-ago), nil
		}
		if err != nil {
			httpjson.Fail(w, http.StatusBadRequest, "since: want a time such as 2026-01-02T03:04:05Z, or how long ago, such as 5m")
			return
		}
		after = at
	}
	names := s.book.Names()
	if only := r.URL.Query().Get("ingress"); only != "" {
		names = []string{only}
	}
	d := status.History{}
	for _, name := range names {
		h, ok := s.book.History(name, after)
		if !ok {
			s.noIngress(w)
			return
		}
		in := status.IngressHistory{Series: newSeries(h.Ingress), Partitions: map[string]status.Series{}}
		for part, e := range h.Partitions {
			in.Partitions[part] = newSeries(e)
		}
		d[name] = in
	}
	httpjson.Packed(w, r, d)
}

// newSeries words an excerpt.
func newSeries(e history.Excerpt) status.Series {
	d := status.Series{At: make([]int64, len(e.At)), Columns: make(map[string][]*float64, len(e.Values))}
	for i, at := range e.At {
		d.At[i] = at.UnixMilli()
	}
	for name, values := range e.Values {
		column := make([]*float64, len(values))
		for i, v := range values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				v = rounded(v)
				column[i] = &v
			}
		}
		d.Columns[name] = column
	}
	return d
}

// rounded leaves four figures, which is all that a chart shows.
func rounded(v float64) float64 {
	out, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return out
}
