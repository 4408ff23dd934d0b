package h2

import (
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/admitd/admitd/internal/ingress/httpgate/target"
)

// request is a request as it comes, field by field.
type request struct {
	r      http.Request
	url    url.URL  // of r, where it is simple
	values []string // of r.Header
	scheme string
	path   string
	host   string // the field
	hosts  bool   // :authority is there
	length int64  // of the body, as declared; -1 = it was not
	wants  bool   // to be told to go on with the body
}

// beginRequest makes it an empty one.
func (q *request) beginRequest() {
	clear(q.r.Header)
	q.values = q.values[:0]
	q.r.Method, q.r.Host, q.r.RequestURI, q.r.Trailer, q.r.Body = "", "", "", nil, http.NoBody
	q.scheme, q.path, q.host, q.hosts, q.length, q.wants = "", "", "", false, -1, false
}

// special takes one of the special fields and reports whether it may stand there.
func (q *request) special(name, value string) bool {
	var to *string
	switch name {
	case ":method":
		to = &q.r.Method
	case ":scheme":
		to = &q.scheme
	case ":path":
		to = &q.path
	case ":authority":
		if q.hosts {
			return false
		}
		q.hosts = true
		to = &q.r.Host
	default:
		return false
	}
	if *to != "" || value == "" && name != ":authority" {
		return false
	}
	*to = value
	return true
}

// field takes another field and reports whether it may stand there.
func (q *request) field(name, value string) bool {
	if isConnection(name) {
		return false
	}
	switch name {
	case "Te":
		if value != "trailers" {
			return false
		}
	case "Host":
		if q.host != "" || value == "" {
			return false
		}
		q.host = value
		return true
	case "Content-Length":
		if q.length >= 0 {
			return false
		}
		n, err := strconv.ParseUint(value, 10, 63)
		if err != nil {
			return false
		}
		q.length = int64(n)
	case "Expect":
		q.wants = q.wants || strings.EqualFold(value, "100-continue")
	case "Trailer":
		q.announce(value)
		return true
	}
	if old, ok := q.r.Header[name]; ok {
		q.r.Header[name] = append(old, value) // the first has no room behind it
		return true
	}
	if len(q.values) == cap(q.values) {
		q.r.Header[name] = []string{value}
		return true
	}
	q.values = append(q.values, value)
	n := len(q.values)
	q.r.Header[name] = q.values[n-1 : n : n]
	return true
}

// announce takes the names of what comes behind the body.
func (q *request) announce(names string) {
	for name := range strings.SplitSeq(names, ",") {
		switch name = textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)); name {
		case "", "Transfer-Encoding", "Trailer", "Content-Length": // as net/http has it
		default:
			if !httpguts.ValidHeaderFieldName(name) {
				continue // no field can have it
			}
			if q.r.Trailer == nil {
				q.r.Trailer = http.Header{}
			}
			q.r.Trailer[name] = nil
		}
	}
}

// check makes the request whole and reports whether it is one. ended says that it
// has no body.
func (q *request) check(ended bool) bool {
	r := &q.r
	if crumbs := r.Header["Cookie"]; len(crumbs) > 1 { // as HTTP/1.1 has them
		crumbs[0] = strings.Join(crumbs, "; ")
		r.Header["Cookie"] = crumbs[:1]
	}
	if q.host != "" {
		if q.hosts && q.host != r.Host {
			return false
		}
		r.Host = q.host
	}
	if strings.Contains(r.Host, "@") || ended && q.length > 0 {
		return false
	}
	r.ContentLength = q.length
	if ended {
		r.ContentLength = 0
	}
	if r.Method == http.MethodConnect {
		q.url = url.URL{Host: r.Host}
		r.URL, r.RequestURI = &q.url, r.Host
		return q.scheme == "" && q.path == "" && r.Host != ""
	}
	if r.Method == "" || q.path == "" || q.scheme != "http" && q.scheme != "https" {
		return false
	}
	r.RequestURI = q.path
	var ok bool
	r.URL, ok = target.Parse(q.path, &q.url)
	return ok
}
