package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"reflect"
	"strings"

	"github.com/admitd/admitd/config/strict"
)

// problem is the body of every answer that is an error (RFC 9457), but for
// rejections, which have a document of their own.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Problems []string `json:"problems,omitempty"` // every one, for invalid settings
}

// fail answers with a problem.
func fail(w http.ResponseWriter, status int, detail string, problems ...string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Problems: problems})
}

// failWith answers with what err means.
func (s *voice) failWith(w http.ResponseWriter, r *http.Request, err error) {
	invalid, isInvalid := errors.AsType[*Invalid](err)
	switch {
	case isInvalid:
		fail(w, http.StatusBadRequest, "the settings do not hold; nothing was changed", invalid.Problems...)
	case errors.Is(err, ErrDraining):
		w.Header().Set("Connection", "close")
		fail(w, http.StatusServiceUnavailable, "the daemon is draining, settings stay as they are")
	case errors.Is(err, ErrChanged):
		fail(w, http.StatusPreconditionFailed, "the settings are not those of If-Match any more; nothing was changed")
	case errors.Is(err, ErrUnknownOverride):
		fail(w, http.StatusNotFound, "no such override")
	case errors.Is(err, ErrUnknownIngress):
		fail(w, http.StatusNotFound, "no such ingress")
	case r.Context().Err() != nil: // the client went away
		fail(w, http.StatusServiceUnavailable, "the request was cancelled")
	default:
		s.log.ErrorContext(r.Context(), "admin request failed",
			slog.String("path", r.URL.Path), slog.Any("error", err))
		fail(w, http.StatusInternalServerError, err.Error())
	}
}

// answer answers with JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	write(w, status, v)
}

func write(w http.ResponseWriter, status int, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot write the answer: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client went away: nothing to do
}

// read decodes one JSON object from the body, strictly. On failure it has
// answered and returns false.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if _, extra := d.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err == nil {
		return true
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	} else {
		fail(w, http.StatusBadRequest, "the body does not hold: "+worded(err, into))
	}
	return false
}

// worded says what a body does not hold for, and of an unknown key which one may
// be meant.
func worded(err error, into any) string {
	text := strings.TrimPrefix(err.Error(), "json: ")
	key, unknown := strings.CutPrefix(text, "unknown field ")
	if !unknown {
		return text
	}
	key = strings.Trim(key, `"`)
	text = "unknown key " + fmt.Sprintf("%q", key)
	if near := strict.Nearest(key, keysOf(reflect.TypeOf(into), nil)); near == key {
		text += " here: it belongs into another object, such as requests.rate"
	} else if near != "" {
		text += fmt.Sprintf(", did you mean %q?", near)
	}
	return text
}

// keysOf adds the keys of a type and of those in it.
func keysOf(t reflect.Type, keys []string) []string {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return keys
	}
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			keys = append(keys, name)
		}
		if f.Type != t && f.Type.PkgPath() != "time" {
			keys = keysOf(f.Type, keys)
		}
	}
	return keys
}
