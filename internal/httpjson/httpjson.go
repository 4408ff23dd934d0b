// Package httpjson writes what our HTTP APIs answer and reads what they are asked,
// the same for operators at the admin port and for those who ask for decisions:
// JSON, problems (RFC 9457), and refusals, which have a document of their own.
package httpjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/admitd/admitd/internal/config/strict"
	"github.com/admitd/admitd/labels"
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

// Fail answers with a problem; problems are every single one, for what does not hold
// in several ways.
func Fail(w http.ResponseWriter, status int, detail string, problems ...string) {
	w.Header().Set("Content-Type", "application/problem+json")
	write(w, status, problem{Type: "about:blank", Title: http.StatusText(status), Status: status, Detail: detail, Problems: problems})
}

// NoSuchPath answers that there is nothing at the path of r.
func NoSuchPath(w http.ResponseWriter, r *http.Request) {
	Fail(w, http.StatusNotFound, "no such path: "+r.URL.Path)
}

// NotAllowed answers that the path of r is there for other methods: those that has
// reports. It answers nothing and returns false when there are none: what is not
// answered then is a 200.
func NotAllowed(w http.ResponseWriter, r *http.Request, has func(method string) bool) bool {
	var allowed []string
	for _, m := range [...]string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if has(m) {
			allowed = append(allowed, m)
		}
	}
	if len(allowed) == 0 {
		return false
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	Fail(w, http.StatusMethodNotAllowed, r.Method+" is not allowed here")
	return true
}

// Refuse answers with a refusal, in the form that the ingress gives it.
func Refuse(w http.ResponseWriter, d *labels.Document, form labels.HTTPForm) {
	d.SetHeaders(w.Header(), form) // which may choose another status
	Document(w, d.Status, d)
}

// Document answers with a refusal whose headers are set, under a status that may
// differ from its own: a proxy that asked may know few.
func Document(w http.ResponseWriter, status int, d *labels.Document) {
	w.WriteHeader(status)
	_, _ = w.Write(append(d.AppendJSON(nil), '\n')) // the client went away: nothing to do
}

// JSON answers with v, or with a 500 when v is nothing that JSON can tell.
func JSON(w http.ResponseWriter, status int, v any) {
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

// Read decodes one JSON object from the body, strictly. On failure it has
// answered and returns false.
func Read(w http.ResponseWriter, r *http.Request, into any) bool {
	body, err := io.ReadAll(r.Body)
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err == nil && !isText(body) {
		err = errors.New("it is no UTF-8, or escapes half a character")
	}
	if err == nil {
		err = d.Decode(into)
	}
	if err == nil {
		if _, extra := d.Token(); !errors.Is(extra, io.EOF) {
			err = errors.New("more than one JSON value")
		}
	}
	if err == nil {
		return true
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		Fail(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", tooLarge.Limit))
	} else {
		Fail(w, http.StatusBadRequest, "the body does not hold: "+Worded(err, into))
	}
	return false
}

// isText reports whether all text in a JSON value is Unicode. [json.Decoder] puts U+FFFD for
// what is not, so that a name would become another one.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		i++
		if first := escaped(b[i:]); utf16.IsSurrogate(first) {
			if len(b) < i+6 || b[i+5] != '\\' || utf16.DecodeRune(first, escaped(b[i+6:])) == unicode.ReplacementChar {
				return false
			}
			i += 6
		}
	}
	return true
}

// escaped returns the character of uXXXX at the head of b, 0 where there is none.
func escaped(b []byte) rune {
	if len(b) < 5 || b[0] != 'u' {
		return 0
	}
	c, err := strconv.ParseUint(string(b[1:5]), 16, 16)
	if err != nil {
		return 0
	}
	return rune(c)
}

// Worded says what a body does not hold for, in the words of who wrote it, and of
// an unknown key which one may be meant.
func Worded(err error, into any) string {
	if mistyped, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return mistype(mistyped)
	}
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

// mistype says what stands where something else is wanted.
func mistype(e *json.UnmarshalTypeError) string {
	var path []string
	for key := range strings.SplitSeq(e.Field, ".") {
		if key != "" && !unicode.IsUpper(rune(key[0])) { // else it is the name of one of our types
			path = append(path, key)
		}
	}
	where := strings.Join(path, ".")
	if where == "" {
		where = "the whole of it"
	}
	want := "an object"
	switch kind := e.Type.Kind(); {
	case kind == reflect.Bool:
		want = "true or false"
	case kind == reflect.String:
		want = "text"
	case kind == reflect.Slice, kind == reflect.Array:
		want = "a list"
	case kind >= reflect.Int && kind <= reflect.Float64:
		if n, is := strings.CutPrefix(e.Value, "number "); is {
			return where + ": is not a number that can be meant (" + n + ")"
		}
		want = "a number"
	}
	return where + ": must be " + want + " (" + e.Value + ")"
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

// Extend moves the deadline for writing the answer. A writer that has no
// deadlines, as in tests, needs none.
func Extend(w http.ResponseWriter, d time.Duration) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(d))
}

// Bound bounds what is read from a request, in bytes, and how long its answer may
// take to be taken.
func Bound(body int64, d time.Duration) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(w, r.Body, body)
			Extend(w, d)
			next.ServeHTTP(w, r)
		})
	}
}
