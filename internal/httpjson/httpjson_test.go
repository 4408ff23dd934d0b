package httpjson_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/labels"
)

// A body is read strictly, and who sent what does not hold is told what was meant,
// at every port: the decision API once named an unknown key and left it at that.
func TestReadIsStrict(t *testing.T) {
	type body struct {
		Rate  float64 `json:"rate"`
		Inner struct {
			Depth int `json:"depth"`
		} `json:"inner"`
	}
	for name, tc := range map[string]struct {
		text   string
		status int
		want   string // in the answer
	}{
		"holds":            {`{"rate": 2}`, 0, ""},
		"misspelt":         {`{"rates": 2}`, http.StatusBadRequest, `unknown key \"rates\", did you mean \"rate\"?`},
		"misplaced":        {`{"depth": 2}`, http.StatusBadRequest, `unknown key \"depth\" here: it belongs into another object`},
		"unlike any":       {`{"zzzzzzzz": 2}`, http.StatusBadRequest, `unknown key \"zzzzzzzz\"`},
		"another type":     {`{"rate": "2"}`, http.StatusBadRequest, "rate: must be a number (string)"},
		"another number":   {`{"inner": {"depth": 1.5}}`, http.StatusBadRequest, "inner.depth: is not a number that can be meant (1.5)"},
		"no object":        {`[]`, http.StatusBadRequest, "the whole of it: must be an object (array)"},
		"two documents":    {`{"rate": 2} {}`, http.StatusBadRequest, "more than one JSON value"},
		"no JSON at all":   {`rate=2`, http.StatusBadRequest, "invalid character"},
		"no UTF-8":         {"{\"\xff\": 2}", http.StatusBadRequest, "it is no UTF-8, or escapes half a character"},
		"half a character": {`{"rate": 2, "\ud83d": 2}`, http.StatusBadRequest, "it is no UTF-8, or escapes half a character"},
		"the other half":   {`{"rate": 2, "\udca9\ud83d": 2}`, http.StatusBadRequest, "it is no UTF-8"},
		"cut in the midst": {`{"\ud83d\u`, http.StatusBadRequest, "it is no UTF-8"},
		"a character":      {`{"rate": 2, "\\ud83d\ud83d\udca9\ufffd": 2}`, http.StatusBadRequest, "unknown key"},
		"too large":        {`{"rate": ` + strings.Repeat("1", 100) + `}`, http.StatusRequestEntityTooLarge, "larger than 64 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.text))
			httpjson.Bound(64, 0)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var b body
				if httpjson.Read(w, r, &b) && b.Rate != 2 {
					t.Errorf("read %+v", b)
				}
			})).ServeHTTP(w, r)
			if tc.status == 0 {
				if w.Body.Len() != 0 {
					t.Errorf("answered %s", w.Body)
				}
				return
			}
			if w.Code != tc.status || !strings.Contains(w.Body.String(), tc.want) || w.Header().Get("Content-Type") != "application/problem+json" {
				t.Errorf("answer %d %s %s; want %d and %q in it", w.Code, w.Header().Get("Content-Type"), w.Body, tc.status, tc.want)
			}
		})
	}
}

// A method that a path is not there for is answered with those that it is there for
// (RFC 9110, section 15.5.6), which were not told.
func TestNotAllowed(t *testing.T) {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPut, "/v1/admissions", nil)
	if !httpjson.NotAllowed(w, r, func(m string) bool { return m == http.MethodPost || m == http.MethodGet }) {
		t.Fatal("not answered")
	}
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, POST" || !strings.Contains(w.Body.String(), "PUT is not allowed here") {
		t.Errorf("answer %d, Allow %q, %s; want 405 and GET, POST", w.Code, w.Header().Get("Allow"), w.Body)
	}
	w = httptest.NewRecorder()
	if httpjson.NotAllowed(w, r, func(string) bool { return false }) || w.Body.Len() > 0 {
		t.Errorf("a path that is not there is answered %s", w.Body)
	}
}

// What is worth it is packed for who takes it, and for nobody else.
func TestPacked(t *testing.T) {
	large := strings.Repeat("x", 8<<10)
	for _, tc := range []struct {
		accept string
		body   string
		packed bool
	}{
		{"gzip", large, true},
		{"br, gzip;q=0.5", large, true},
		{"gzip;q=0", large, false},
		{"gzip;q=0.0", large, false},
		{"identity", large, false},
		{"", large, false},
		{"gzip", "small", false},
	} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", tc.accept)
		httpjson.Packed(w, r, tc.body)
		got := w.Body.Bytes()
		if packed := w.Header().Get("Content-Encoding") == "gzip"; packed != tc.packed {
			t.Errorf("Accept-Encoding %q, %d bytes: packed = %v; want %v", tc.accept, len(tc.body), packed, tc.packed)
		} else if packed {
			z, err := gzip.NewReader(bytes.NewReader(got))
			if err != nil {
				t.Fatal(err)
			}
			got, _ = io.ReadAll(z)
		}
		if string(got) != `"`+tc.body+"\"\n" {
			t.Errorf("Accept-Encoding %q: answered %.60q", tc.accept, got)
		}
	}
}

// What cannot be said in JSON is an error, not half an answer.
func TestWhatCannotBeSaid(t *testing.T) {
	for name, write := range map[string]func(w http.ResponseWriter, r *http.Request){
		"plain":  func(w http.ResponseWriter, _ *http.Request) { httpjson.JSON(w, http.StatusOK, func() {}) },
		"packed": func(w http.ResponseWriter, r *http.Request) { httpjson.Packed(w, r, func() {}) },
	} {
		w := httptest.NewRecorder()
		write(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "unsupported type") {
			t.Errorf("%s: answer %d %s; want 500 and why", name, w.Code, w.Body)
		}
	}
}

// A refusal has its own status but where another is asked for; the document stays.
func TestDocument(t *testing.T) {
	d := labels.New(labels.ConcurrencyLimit, "", "")
	w := httptest.NewRecorder()
	d.SetHeaders(w.Header(), labels.HTTPForm{})
	httpjson.Document(w, http.StatusForbidden, &d)
	if w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), `"reason":"concurrency_limit"`) || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("answer %d %v %s", w.Code, w.Header(), w.Body)
	}
}
