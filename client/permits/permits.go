// Package permits is the client of the decision API, for work that cannot be put
// behind a gate: ask before it, report after it. Python and TypeScript have the
// same in a file each, in examples/decide.
//
// [Client.Do] is the whole of it; [Client.Admit] and [Permit.End] are its halves.
package permits

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/labels"
)

const (
	timeout  = 30 * time.Second // of a call without a deadline
	endAfter = 5 * time.Second  // bounds telling the end
	maxBody  = 64 << 10
)

// Outcome says how the work went.
type Outcome string

// The outcomes.
const (
	Success Outcome = "success" // the latency is a fair sample
	Ignored Outcome = "ignored" // it says nothing
	Dropped Outcome = "dropped" // the backend failed or was too slow
)

// Refused is the error of an admission that was refused. Its document says why,
// and whether and when to come again.
type Refused struct{ labels.Document }

// HasErrorLabel reports what an error label says of the refusal, so that a client with
// a retry policy knows what it allows.
func (r *Refused) HasErrorLabel(label string) bool {
	return r != nil && (r.HasLabel(label) || label == labels.NoWritesPerformed)
}

// RetryHint returns the wait before which no retry will succeed, and the base of an
// exponential backoff; 0 = unknown.
func (r *Refused) RetryHint() (retryAfter, baseBackoff time.Duration) {
	if r == nil {
		return 0, 0
	}
	return milliseconds(r.RetryAfterMS), milliseconds(r.BaseBackoffMS)
}

// milliseconds converts a count from the wire, holding it to [0, 1 h].
func milliseconds(n int64) time.Duration {
	return time.Duration(min(max(n, 0), time.Hour.Milliseconds())) * time.Millisecond
}

// Error implements error.
func (r *Refused) Error() string {
	return fmt.Sprintf("permits: %s: %s of %s", r.Detail, r.Reason, r.Ingress)
}

// Options of [New]. The zero value works.
type Options struct {
	Token string       // of decisions.tokenFile; "" = none
	HTTP  *http.Client // nil = one that gives up after 30 s
}

// Client asks one gate. It is safe for concurrent use.
type Client struct {
	base  string
	token string
	http  *http.Client
}

// New returns a client of the decisions listener at base, such as
// http://127.0.0.1:9463.
func New(base string, o Options) *Client {
	if o.HTTP == nil {
		o.HTTP = &http.Client{Timeout: timeout}
	}
	return &Client{base: strings.TrimSuffix(base, "/"), token: o.Token, http: o.HTTP}
}

// Ask is what is asked for. Ingress is compulsory.
type Ask struct {
	Ingress   string        `json:"ingress"`
	Partition string        `json:"partition,omitempty"`
	Operation string        `json:"operation,omitempty"` // for exemptions and costs
	Class     string        `json:"class,omitempty"`
	Cost      float64       `json:"cost,omitempty"` // tokens; 0 = what the operation costs
	TTL       time.Duration `json:"-"`              // the permit ends as dropped after it; 0 = 10 s, at most 10 min
}

// Permit is the right to have one piece of work in progress. End it once.
type Permit struct {
	client *Client
	id     string
}

// Admit asks for a permit, waiting in the gate's queue at most until ctx is done.
// The error is a [*Refused], or says that the gate could not be asked; whether
// work then goes on is the caller's choice.
func (c *Client) Admit(ctx context.Context, a Ask) (*Permit, error) {
	body := struct {
		Ask

		TTLMS int64 `json:"ttlMS,omitempty"`
	}{a, a.TTL.Milliseconds()}
	var granted struct {
		Permit string `json:"permit"`
	}
	if err := c.call(ctx, http.MethodPost, "/v1/admissions", body, &granted); err != nil {
		return nil, err
	}
	if granted.Permit == "" {
		return nil, errors.New("permits: the answer holds no permit")
	}
	return &Permit{c, granted.Permit}, nil
}

// End returns the permit. It is told even when ctx is done. An error is no harm:
// the permit has expired, or will.
func (p *Permit) End(ctx context.Context, o Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endAfter)
	defer cancel()
	return p.client.call(ctx, http.MethodDelete, "/v1/admissions/"+url.PathEscape(p.id)+"?outcome="+string(o), nil, nil)
}

// Do runs work under a permit. Work that fails counts as dropped, or as ignored
// when ctx was done first.
func (c *Client) Do(ctx context.Context, a Ask, work func(context.Context) error) error {
	p, err := c.Admit(ctx, a)
	if err != nil {
		return err
	}
	outcome := Dropped // of a panic, too
	defer func() { _ = p.End(ctx, outcome) }()
	err = work(ctx)
	switch {
	case err == nil:
		outcome = Success
	case ctx.Err() != nil:
		outcome = Ignored
	}
	return err
}

// call makes one request and reads its answer into out.
func (c *Client) call(ctx context.Context, method, path string, body, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(b))
	if err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	if end, ok := ctx.Deadline(); ok {
		r.Header.Set(labels.HeaderDeadline, strconv.FormatInt(max(time.Until(end).Milliseconds(), 1), 10))
	}
	res, err := c.http.Do(r)
	if err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxBody))
	if err != nil {
		return fmt.Errorf("permits: %w", err)
	}
	if res.StatusCode >= http.StatusMultipleChoices {
		if doc, err := labels.Parse(answer); err == nil {
			return &Refused{doc}
		}
		return fmt.Errorf("permits: %s %s: %s", method, path, res.Status)
	}
	if out == nil {
		return nil
	}
	if res.StatusCode != http.StatusCreated {
		return fmt.Errorf("permits: %s %s: %s, want 201", method, path, res.Status)
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return errors.Join(errors.New("permits: the answer is no JSON"), err)
	}
	return nil
}
