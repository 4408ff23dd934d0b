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
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of one answer.
const (
	maxBody   = 16 << 20 // read, after decompression
	maxAnswer = 1 << 20  // of a query, which is held in memory as a whole
	maxDrain  = 64 << 10 // read behind what was asked for, so that the connection is kept
)

// Errors of sources.
var (
	// ErrTooLarge: an answer is larger than 16 MiB, or that of a query than 1 MiB.
	ErrTooLarge = errors.New("source: answer is too large")
	// ErrAbsent: what is looked for is not in the answer.
	ErrAbsent = errors.New("source: not in the answer")
	// ErrForm: the answer does not have the form that it must have.
	ErrForm = errors.New("source: malformed answer")
)

// Endpoint is where an answer is fetched from. Several sources of one kind may share
// one: an answer is then fetched once, and read once for all of them. It is safe for
// concurrent use once it is shared.
type Endpoint struct {
	URL string // http or https
	// TokenFile holds a bearer token that is sent along, read each time; "" =
	// none.
	TokenFile string
	// Client fetches; nil = one that knows no proxy and follows no redirect.
	Client *http.Client
	// Fresh is how old an answer may be that another source of the endpoint
	// fetched; 0 = every reading fetches.
	Fresh time.Duration

	once  sync.Once
	turn  chan struct{} // holds one while somebody fetches
	parts []part        // what reads the answers; guarded by turn
}

// part is a source that reads its part of an answer.
type part interface {
	// take reads an answer for all parts of its kind. Its error is that of the
	// answer as a whole.
	take(parts []part, answer io.Reader, header http.Header) error
	// last is what came of the last answer; guarded by the turn of the endpoint.
	last() *outcome
}

// outcome is what came of an answer.
type outcome struct {
	at     time.Time // when it was asked for
	unread bool      // it was fetched for another source, and not read yet
	err    error
}

// Share tells the endpoint of a source, so that what others fetch is read for it
// too. Call it before anything is read.
func (e *Endpoint) Share(p part) { e.parts = append(e.parts, p) }

// lock waits for the turn until ctx is done.
func (e *Endpoint) lock(ctx context.Context) error {
	e.once.Do(func() { e.turn = make(chan struct{}, 1) })
	select {
	case e.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("source: %w", ctx.Err())
	}
}

// read has an answer read for p, and for the others that share the endpoint, and
// returns when it was asked for. Then done is called, while no answer is being read.
func (e *Endpoint) read(ctx context.Context, p part, accept string, done func(at time.Time) (float64, time.Time, error)) (float64, time.Time, error) {
	if err := e.lock(ctx); err != nil {
		return 0, time.Time{}, err
	}
	defer func() { <-e.turn }()
	if !slices.Contains(e.parts, p) {
		e.parts = append(e.parts, p)
	}
	if last := p.last(); !last.unread || time.Since(last.at) > e.Fresh {
		at := time.Now()
		err := e.get(ctx, accept, nil, maxBody, func(answer io.Reader, header http.Header) error { return p.take(e.parts, answer, header) })
		for _, other := range e.parts {
			*other.last() = outcome{at: at, unread: true, err: err}
		}
	}
	last := p.last()
	last.unread = false
	if last.err != nil {
		return 0, time.Time{}, last.err
	}
	return done(last.at)
}

// get fetches the endpoint with more query parameters, and has take read at most
// most bytes of the answer.
func (e *Endpoint) get(ctx context.Context, accept string, more url.Values, most int64, take func(answer io.Reader, header http.Header) error) error {
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
		return fmt.Errorf("source: %w", withoutQuery(err))
	}
	q := target.Query()
	maps.Copy(q, more)
	target.RawQuery = q.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target.String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	req.Header.Set("Accept", accept)
	if e.TokenFile != "" {
		token, err := os.ReadFile(e.TokenFile)
		if err != nil {
			return fmt.Errorf("source: token: %w", err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	return e.answer(req, most, take)
}

func (e *Endpoint) answer(req *http.Request, most int64, take func(answer io.Reader, header http.Header) error) error {
	resp, err := e.Client.Do(req) //nolint:gosec // the address is the configuration's
	if err != nil {
		return fmt.Errorf("source: %w", withoutQuery(err))
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("source: %s answered %s", req.URL.Host, resp.Status)
	}
	body := &bounded{r: resp.Body, most: most, left: most}
	err = take(body, resp.Header)
	if errors.Is(body.err, ErrTooLarge) {
		return body.err
	}
	if body.err != nil {
		return fmt.Errorf("source: %w", body.err)
	}
	_, _ = io.CopyN(io.Discard, resp.Body, maxDrain) // what was asked for is there
	return err
}

// withoutQuery takes the query out of the URL that an error of the client names: it
// may hold a key.
func withoutQuery(err error) error {
	var failed *url.Error
	if !errors.As(err, &failed) {
		return err
	}
	short := *failed
	short.URL, _, _ = strings.Cut(short.URL, "?")
	return &short
}

// bounded fails with [ErrTooLarge] once more than most bytes were read, and keeps
// the error that ended it.
type bounded struct {
	r          io.Reader
	most, left int64
	err        error // but io.EOF
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, b.most)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err //nolint:wrapcheck // io.EOF is compared
}

// Close drops idle connections.
func (e *Endpoint) Close() error {
	if e.Client != nil {
		e.Client.CloseIdleConnections()
	}
	return nil
}
