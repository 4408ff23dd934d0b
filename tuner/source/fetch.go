package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

// maxBody bounds what is read of one answer.
const maxBody = 16 << 20

// Errors of sources.
var (
	// ErrTooLarge: an answer is larger than 16 MiB.
	ErrTooLarge = errors.New("source: answer is too large")
	// ErrAbsent: what is looked for is not in the answer.
	ErrAbsent = errors.New("source: not in the answer")
	// ErrForm: the answer does not have the form that it must have.
	ErrForm = errors.New("source: malformed answer")
)

// Endpoint is where an answer is fetched from.
type Endpoint struct {
	URL string // http or https
	// TokenFile holds a bearer token that is sent along, read each time; "" =
	// none.
	TokenFile string
	// Client fetches; nil = one that knows no proxy and follows no redirect.
	Client *http.Client
}

// get fetches the endpoint with more query parameters.
func (e *Endpoint) get(ctx context.Context, accept string, more url.Values) ([]byte, error) {
	if e.Client == nil {
		e.Client = &http.Client{
			Transport: &http.Transport{
				MaxIdleConns: 1, IdleConnTimeout: time.Minute, MaxResponseHeaderBytes: 64 << 10, ForceAttemptHTTP2: true,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
	}
	target, err := url.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	q := target.Query()
	maps.Copy(q, more)
	target.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	req.Header.Set("Accept", accept)
	if e.TokenFile != "" {
		token, err := os.ReadFile(e.TokenFile)
		if err != nil {
			return nil, fmt.Errorf("source: token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return e.answer(req)
}

func (e *Endpoint) answer(req *http.Request) ([]byte, error) {
	resp, err := e.Client.Do(req) //nolint:gosec // the address is the configuration's
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("source: %s answered %s", req.URL.Host, resp.Status)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	if len(body) > maxBody {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooLarge, maxBody)
	}
	return body, nil
}

// Close drops idle connections.
func (e *Endpoint) Close() error {
	if e.Client != nil {
		e.Client.CloseIdleConnections()
	}
	return nil
}
