package source

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Query asks a Prometheus server. The answer must be a scalar, or a vector of
// one element.
type Query struct {
	*Endpoint // of the server, without /api/v1/query

	Query string
}

// Read returns the answer, and the time for which it was evaluated.
func (q *Query) Read(ctx context.Context) (float64, time.Time, error) {
	at := &Endpoint{TokenFile: q.TokenFile, Client: q.Client}
	var err error
	if at.URL, err = url.JoinPath(q.URL, "api/v1/query"); err != nil {
		return 0, time.Time{}, fmt.Errorf("source: %w", err)
	}
	var body []byte
	err = at.get(ctx, "application/json", url.Values{"query": {q.Query}}, maxAnswer, func(answer io.Reader, _ http.Header) error {
		var err error
		body, err = io.ReadAll(answer)
		return err //nolint:wrapcheck // of the answer, which is wrapped
	})
	q.Client = at.Client
	if err != nil {
		return 0, time.Time{}, err
	}
	return parseAnswer(body)
}

// parseAnswer reads the answer of the query API.
func parseAnswer(body []byte) (float64, time.Time, error) {
	var answer struct {
		Status, Error string
		Data          struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return 0, time.Time{}, fmt.Errorf("%w: %w", ErrForm, err)
	}
	if answer.Status != "success" {
		return 0, time.Time{}, fmt.Errorf("%w: %s: %.200s", ErrForm, answer.Status, answer.Error)
	}
	if answer.Data.ResultType == "scalar" {
		return parsePair(answer.Data.Result)
	}
	var vector []struct{ Value json.RawMessage }
	if err := json.Unmarshal(answer.Data.Result, &vector); err != nil || answer.Data.ResultType != "vector" {
		return 0, time.Time{}, fmt.Errorf("%w: a %.20q, not one number", ErrForm, answer.Data.ResultType)
	}
	switch len(vector) {
	case 0:
		return 0, time.Time{}, fmt.Errorf("%w: the query has no result", ErrAbsent)
	case 1:
		return parsePair(vector[0].Value)
	}
	return 0, time.Time{}, fmt.Errorf("%w: the query has %d results, not one", ErrForm, len(vector))
}

// parsePair reads [time in seconds, "value"].
func parsePair(raw []byte) (float64, time.Time, error) {
	var pair []any
	if err := json.Unmarshal(raw, &pair); err != nil || len(pair) != 2 {
		return 0, time.Time{}, fmt.Errorf("%w: %.40q is no pair of time and value", ErrForm, raw)
	}
	seconds, isTime := pair[0].(float64)
	text, isText := pair[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if !isTime || !isText || err != nil || math.Abs(seconds) > 1e11 {
		return 0, time.Time{}, fmt.Errorf("%w: %.40q is no pair of time and value", ErrForm, raw)
	}
	return v, time.UnixMilli(int64(seconds * 1000)), nil
}
