package admin

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Bounds of the decision API.
const (
	defaultTTL  = 10 * time.Second
	maxTTL      = 10 * time.Minute
	maxCost     = 1e9
	maxName     = 256 // bytes of ingress, partition and operation
	maxDeadline = 10 * time.Minute
)

// admission is the body of POST /v1/admissions.
type admission struct {
	Ingress   string   `json:"ingress"`
	Partition string   `json:"partition"`
	Operation string   `json:"operation"`
	Cost      *float64 `json:"cost"`
	TTLMS     *int64   `json:"ttlMS"`
}

// check returns what is wrong with a.
func (a *admission) check() []string {
	var wrong []string
	if a.Ingress == "" {
		wrong = append(wrong, "ingress: required")
	}
	for _, f := range []struct{ key, value string }{
		{"ingress", a.Ingress}, {"partition", a.Partition}, {"operation", a.Operation},
	} {
		if len(f.value) > maxName || !utf8.ValidString(f.value) {
			wrong = append(wrong, fmt.Sprintf("%s: at most %d bytes of UTF-8", f.key, maxName))
		}
	}
	if a.Cost != nil && !(*a.Cost > 0 && *a.Cost <= maxCost) {
		wrong = append(wrong, fmt.Sprintf("cost: %v is not in (0, %g]", *a.Cost, maxCost))
	}
	if a.TTLMS != nil && (*a.TTLMS < 1 || *a.TTLMS > maxTTL.Milliseconds()) {
		wrong = append(wrong, fmt.Sprintf("ttlMS: %d is not in [1, %d]", *a.TTLMS, maxTTL.Milliseconds()))
	}
	return wrong
}

// admit decides for a caller that cannot be proxied and holds the permit for
// it.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) {
	var a admission
	if !read(w, r, &a) {
		return
	}
	if wrong := a.check(); len(wrong) > 0 {
		fail(w, http.StatusBadRequest, "the admission does not hold", wrong...)
		return
	}
	request := Admission{Ingress: a.Ingress, Partition: a.Partition, Operation: a.Operation, Cost: 1, MaxWait: patience(r)}
	if a.Cost != nil {
		request.Cost = *a.Cost
	} else if usual := s.o.Admitter.Cost(a.Ingress, a.Operation); usual > 0 {
		request.Cost = usual
	}
	ttl := defaultTTL
	if a.TTLMS != nil {
		ttl = time.Duration(*a.TTLMS) * time.Millisecond
	}
	if !s.permits.book() {
		s.refuseFull(w, &request)
		return
	}
	extend(w, maxDeadline+writeTimeout) // the request may wait in a queue
	permit, err := s.o.Admitter.Admit(r.Context(), request)
	if err != nil {
		s.permits.unbook()
		s.refuse(w, r, &request, err)
		return
	}
	if r.Context().Err() != nil { // nobody is there to take it
		s.permits.unbook()
		permit.End(limiter.Ignored)
		return
	}
	id := s.permits.keep(permit, ttl)
	w.Header().Set("Location", "/v1/admissions/"+id)
	answer(w, http.StatusCreated, struct {
		Permit string `json:"permit"`
		TTLMS  int64  `json:"ttlMS"`
	}{id, ttl.Milliseconds()})
}

// patience returns how long the caller says that it can wait, 0 when it does
// not say.
func patience(r *http.Request) time.Duration {
	ms, err := strconv.ParseInt(r.Header.Get(labels.HeaderDeadline), 10, 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxDeadline.Milliseconds())) * time.Millisecond
}

// release ends a permit.
func (s *Server) release(w http.ResponseWriter, r *http.Request) {
	outcome, ok := parseOutcome(r.URL.Query().Get("outcome"))
	if !ok {
		fail(w, http.StatusBadRequest, "outcome: want success, ignored or dropped")
		return
	}
	if !s.permits.end(chi.URLParam(r, "permit"), outcome) {
		fail(w, http.StatusNotFound, "no such permit: it never was, was returned, or expired")
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// parseOutcome reads an outcome; none means success.
func parseOutcome(name string) (limiter.Outcome, bool) {
	switch name {
	case "", limiter.Success.String():
		return limiter.Success, true
	case limiter.Ignored.String():
		return limiter.Ignored, true
	case limiter.Dropped.String():
		return limiter.Dropped, true
	}
	return 0, false
}

// refuse answers with what the gate, or the way to it, said.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, a *Admission, err error) {
	var rejection *limiter.Rejection
	if !errors.As(err, &rejection) {
		s.failWith(w, r, err)
		return
	}
	form := s.o.Admitter.Form(a.Ingress, rejection.Partition)
	writeRejection(w, rejection.Document(limiter.Request{Cost: a.Cost}, form.Hints), form)
}

// refuseFull answers when as many permits are held as may be. No work ran, and
// a permit will be free when one is returned or expires.
func (s *Server) refuseFull(w http.ResponseWriter, a *Admission) {
	partition := a.Partition
	if partition == "" {
		partition = limiter.DefaultPartition
	}
	form := s.o.Admitter.Form(a.Ingress, partition)
	document := labels.New(labels.ConcurrencyLimit, a.Ingress, partition)
	document.Detail = "The decision API holds as many permits as it may"
	if form.Hints {
		document.RetryAfterMS = time.Second.Milliseconds()
	}
	writeRejection(w, document, form)
}

// writeRejection writes a rejection as the HTTP gate does.
func writeRejection(w http.ResponseWriter, d labels.Document, form Form) {
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	for _, f := range d.HTTPFields(labels.HTTPForm{
		NoHints: !form.Hints, Status: form.Status, PerSecond: form.Rate.PerSecond, BurstSeconds: form.Rate.BurstSeconds,
	}) {
		if f.Value != "" && f.Name != "Connection" { // this port goes on while the ingress drains
			h.Set(f.Name, f.Value)
		}
	}
	w.WriteHeader(d.Status)
	_, _ = w.Write(append(d.AppendJSON(nil), '\n')) // the client went away: nothing to do
}
