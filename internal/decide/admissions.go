package decide

import (
	"fmt"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-chi/chi/v5"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// maxPatience bounds how long a caller may say that it can wait.
const maxPatience = 10 * time.Minute

// admission is the body of POST /v1/admissions.
type admission struct {
	Ingress   string   `json:"ingress"`
	Partition string   `json:"partition"`
	Operation string   `json:"operation"`
	Class     string   `json:"class"`
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
	if labels.ParseClass(a.Class) == labels.UnknownClass {
		wrong = append(wrong, "class: want critical-plus, critical, sheddable-plus, sheddable or exempt")
	}
	if a.Cost != nil && !(*a.Cost > 0 && *a.Cost <= limiter.MaxCost) {
		wrong = append(wrong, fmt.Sprintf("cost: %v is not in (0, %g]", *a.Cost, limiter.MaxCost))
	}
	if a.TTLMS != nil && (*a.TTLMS < 1 || *a.TTLMS > MaxTTL.Milliseconds()) {
		wrong = append(wrong, fmt.Sprintf("ttlMS: %d is not in [1, %d]", *a.TTLMS, MaxTTL.Milliseconds()))
	}
	return wrong
}

// ask returns what a asks of the gate, and for how long the permit is held.
func (a *admission) ask() (*Ask, time.Duration) {
	ask, ttl := &Ask{Ingress: a.Ingress, Partition: a.Partition, Operation: a.Operation, Class: labels.ParseClass(a.Class)}, defaultTTL
	if a.Cost != nil {
		ask.Cost = *a.Cost
	}
	if a.TTLMS != nil {
		ttl = time.Duration(*a.TTLMS) * time.Millisecond
	}
	return ask, ttl
}

// grant is the answer to an admission.
type grant struct {
	Permit string `json:"permit"`
	TTLMS  int64  `json:"ttlMS"`
}

// admit decides for a caller that cannot be proxied and holds the permit for
// it. A permit that nobody returns ends as dropped: nobody said how the work
// went.
func (s *api) admit(w http.ResponseWriter, r *http.Request) {
	var a admission
	if !httpjson.Read(w, r, &a) {
		return
	}
	if wrong := a.check(); len(wrong) > 0 {
		httpjson.Fail(w, http.StatusBadRequest, "the admission does not hold", wrong...)
		return
	}
	ask, ttl := a.ask()
	ask.MaxWait = patience(r)
	httpjson.Extend(w, maxPatience+writeTimeout) // the request may wait in a queue
	id, err := s.decider.Hold(r.Context(), ask, Hold{TTL: ttl, Expired: limiter.Dropped})
	if err != nil {
		s.refuse(w, r, ask, err)
		return
	}
	w.Header().Set("Location", "/v1/admissions/"+id)
	httpjson.JSON(w, http.StatusCreated, grant{id, ttl.Milliseconds()})
}

// patience returns how long the caller says that it can wait, 0 when it does
// not say.
func patience(r *http.Request) time.Duration {
	ms, err := strconv.ParseInt(r.Header.Get(labels.HeaderDeadline), 10, 64)
	if err != nil || ms <= 0 {
		return 0
	}
	return time.Duration(min(ms, maxPatience.Milliseconds())) * time.Millisecond
}

// release ends a permit.
func (s *api) release(w http.ResponseWriter, r *http.Request) {
	outcome, ok := parseOutcome(r.URL.Query().Get("outcome"))
	if !ok {
		httpjson.Fail(w, http.StatusBadRequest, "outcome: want success, ignored or dropped")
		return
	}
	if !s.decider.End(chi.URLParam(r, "permit"), outcome) {
		httpjson.Fail(w, http.StatusNotFound, "no such permit: it never was, was returned, or expired")
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
