package decide

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/limiter"
)

// maxBatch bounds each list of a batch.
const maxBatch = 100

// batch is the body of POST /v1/admissions/batch: permits that end, then
// requests for new ones, so that a worker makes one call per round.
type batch struct {
	End   []returned  `json:"end"`
	Admit []admission `json:"admit"`
}

// returned is one permit that ends.
type returned struct {
	Permit  string `json:"permit"`
	Outcome string `json:"outcome"`
}

// result is the answer to one admission of a batch: the grant, or the refusal.
type result struct {
	Status int `json:"status"` // as the single call would have answered

	*grant
	Rejection json.RawMessage `json:"rejection,omitempty"`
}

// check returns what is wrong with b.
func (b *batch) check() []string {
	var wrong []string
	if len(b.End) > maxBatch || len(b.Admit) > maxBatch {
		wrong = append(wrong, fmt.Sprintf("at most %d permits to end and %d to admit", maxBatch, maxBatch))
	}
	for i, e := range b.End {
		if _, ok := parseOutcome(e.Outcome); !ok {
			wrong = append(wrong, fmt.Sprintf("end[%d].outcome: want success, ignored or dropped", i))
		}
	}
	for i := range b.Admit {
		for _, problem := range b.Admit[i].check() {
			wrong = append(wrong, fmt.Sprintf("admit[%d].%s", i, problem))
		}
	}
	return wrong
}

// batch ends permits and asks for others, in the order of the lists. It waits
// in no queue: the answers come together.
func (s *api) batch(w http.ResponseWriter, r *http.Request) {
	var b batch
	if !httpjson.Read(w, r, &b) {
		return
	}
	if wrong := b.check(); len(wrong) > 0 {
		httpjson.Fail(w, http.StatusBadRequest, "the batch does not hold; nothing was done", wrong...)
		return
	}
	ended := make([]bool, len(b.End))
	for i, e := range b.End {
		outcome, _ := parseOutcome(e.Outcome) // checked above
		ended[i] = s.decider.End(e.Permit, outcome)
	}
	admitted := make([]result, len(b.Admit))
	for i := range b.Admit {
		admitted[i] = s.admitOne(r, &b.Admit[i])
	}
	httpjson.JSON(w, http.StatusOK, map[string]any{"ended": ended, "admitted": admitted})
}

// admitOne decides one admission of a batch.
func (s *api) admitOne(r *http.Request, a *admission) result {
	ask, ttl := a.ask()
	ask.MaxWait = limiter.NoWait
	id, err := s.decider.Hold(r.Context(), ask, Hold{TTL: ttl, Expired: limiter.Dropped})
	if err == nil {
		return result{Status: http.StatusCreated, grant: &grant{id, ttl.Milliseconds()}}
	}
	if doc, form, ok := s.decider.Refusal(ask, err); ok {
		doc.HTTPFields(form) // gives it the status of the form
		return result{Status: doc.Status, Rejection: doc.AppendJSON(nil)}
	}
	if errors.Is(err, ErrUnknownIngress) {
		return result{Status: http.StatusNotFound}
	}
	return result{Status: http.StatusServiceUnavailable} // the caller has gone
}
