package httpgate

import (
	"bufio"
	"errors"
	"io"
	"net/http"

	"github.com/admitd/admitd/limiter"
)

// Identify opens identification to tests.
func Identify(o Options) (func(*http.Request) limiter.Request, error) {
	o = o.WithDefaults()
	id, err := newIdentifier(&o)
	if err != nil {
		return nil, err
	}
	return id.identify, nil
}

// Answer is an answer as the gate reads it.
type Answer struct {
	Status  int
	Fields  [][2]string
	Body    []byte
	Trailer [][2]string
}

// ReadAnswer opens the reading of answers to tests.
func ReadAnswer(br *bufio.Reader, method string, limit int) (Answer, error) {
	var h head
	if err := h.readHead(br, limit); err != nil {
		return Answer{}, err
	}
	a := Answer{Status: h.status, Fields: pairs(h.fields)}
	b := newBody(br, &h, method)
	var err error
	a.Body, err = io.ReadAll(&b)
	a.Trailer = pairs(b.trailer)
	return a, err
}

func pairs(fields []field) (out [][2]string) {
	for _, f := range fields {
		out = append(out, [2]string{f.name, f.value})
	}
	return out
}

// AtDoorstep returns the request that raw holds as the doorstep reads it, nil
// when it leaves raw to net/http.
func AtDoorstep(raw []byte) *http.Request {
	sc := &scratch{r: http.Request{Header: http.Header{}}, values: make([]string, 0, 32)}
	if !isSimple(raw) || !sc.parse(string(raw)) {
		return nil
	}
	return &sc.r
}

// Upstream returns what keeps the connections to the backend, to be compared.
func (s *Server) Upstream() any { return s.route.Load().upstream }

// RequestHead opens the writing of a request's head to tests.
func RequestHead(o Options) (func(*http.Request) []byte, error) {
	o = o.WithDefaults()
	id, errID := newIdentifier(&o)
	up, errUp := newUpstream(&o)
	rt := &route{o: o, id: id, upstream: up}
	return func(r *http.Request) []byte { return rt.appendRequest(nil, r, "") }, errors.Join(errID, errUp)
}
