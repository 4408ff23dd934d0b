package decide

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/limiter"
)

// Headers of GET /v1/authorize, beside those of every refusal.
const (
	// HeaderStatus carries the status of a refusal, whatever status it is
	// answered with.
	HeaderStatus = "X-Admitd-Status"
	// HeaderPermit carries the permit that is held for the caller.
	HeaderPermit = "X-Admitd-Permit"
)

// authorization is the query of GET /v1/authorize.
type authorization struct {
	ask  Ask
	deny int           // status of every refusal; 0 = its own
	hold time.Duration // 0 = no permit is held
}

// parseAuthorization reads the query.
func parseAuthorization(q url.Values) (a authorization, wrong []string) {
	known := []string{"ingress", "partition", "operation", "class", "cost", "deny", "hold"}
	for key := range q {
		if !slices.Contains(known, key) {
			wrong = append(wrong, fmt.Sprintf("%.40q: want %s", key, strings.Join(known, ", ")))
		}
	}
	var form admission
	form.Ingress, form.Partition, form.Operation, form.Class = q.Get("ingress"), q.Get("partition"), q.Get("operation"), q.Get("class")
	if text := q.Get("cost"); text != "" {
		cost, err := strconv.ParseFloat(text, 64)
		if err != nil {
			wrong, cost = append(wrong, fmt.Sprintf("cost: %.40q is not a number", text)), 1
		}
		form.Cost = &cost
	}
	wrong = append(wrong, form.check()...)
	ask, _ := form.ask()
	a.ask = *ask
	if text := q.Get("deny"); text != "" {
		if a.deny, _ = strconv.Atoi(text); a.deny < 400 || a.deny > 599 {
			wrong = append(wrong, fmt.Sprintf("deny: %.40q is not a status from 400 to 599", text))
		}
	}
	if text := q.Get("hold"); text != "" {
		var err error
		if a.hold, err = time.ParseDuration(text); err != nil || a.hold < time.Millisecond || a.hold > MaxTTL {
			wrong = append(wrong, fmt.Sprintf("hold: %.40q is not a duration from 1ms to %v", text, MaxTTL))
		}
	}
	slices.Sort(wrong)
	return a, wrong
}

// authorize answers proxies that ask about a request of theirs: 204, or the
// refusal for the client. The request is spent from the rates; its permit is
// held only when the proxy asks for it, since most of them cannot tell when the
// request has ended. A permit that was held and not returned teaches nothing.
func (s *api) authorize(w http.ResponseWriter, r *http.Request) {
	a, wrong := parseAuthorization(r.URL.Query())
	if len(wrong) > 0 {
		httpjson.Fail(w, http.StatusBadRequest, "the query does not hold", wrong...)
		return
	}
	asked, err := forwarded(r)
	a.ask.Via, a.ask.HTTP, a.ask.MaxWait = ViaAuthorize, asked, patience(r)
	httpjson.Extend(w, maxPatience+writeTimeout)
	if err == nil {
		err = s.grant(w, r, &a)
	} else {
		s.decider.counts.note(a.ask.Via, err)
	}
	doc, form, refused := s.decider.Refusal(&a.ask, err)
	switch {
	case err == nil:
		w.WriteHeader(http.StatusNoContent)
	case refused:
		doc.SetHeaders(w.Header(), form)
		w.Header().Set(HeaderStatus, strconv.Itoa(doc.Status))
		status := doc.Status
		if a.deny != 0 {
			status = a.deny
		}
		httpjson.Document(w, status, &doc)
	case errors.Is(err, ErrUnacceptable):
		w.Header().Set(HeaderStatus, strconv.Itoa(http.StatusBadRequest))
		httpjson.Fail(w, cmp.Or(a.deny, http.StatusBadRequest), Detail(err))
	default:
		s.fail(w, r, err)
	}
}

// grant asks the gate, and holds the permit or gives it back at once.
func (s *api) grant(w http.ResponseWriter, r *http.Request, a *authorization) error {
	if a.hold > 0 {
		id, err := s.decider.Hold(r.Context(), &a.ask, Hold{TTL: a.hold, Expired: limiter.Ignored})
		if err == nil {
			w.Header().Set(HeaderPermit, id)
		}
		return err
	}
	permit, err := s.decider.Admit(r.Context(), &a.ask)
	if err == nil {
		permit.End(limiter.Ignored)
	}
	return err
}

// forwarded returns the request that a proxy asks about, from the headers that
// Traefik and Caddy (X-Forwarded-Method, X-Forwarded-Uri, X-Forwarded-Host) and
// nginx recipes (X-Original-Method, X-Original-URI) send. Its client is the
// last address of X-Forwarded-For: the one that the proxy itself saw. The error wraps
// [ErrUnacceptable], for a target that is no URI.
func forwarded(r *http.Request) (*http.Request, error) {
	out := *r
	out.Header = r.Header.Clone()
	out.Method = first(r.Header, "X-Forwarded-Method", "X-Original-Method")
	if out.Method == "" {
		out.Method = http.MethodGet
	}
	out.RequestURI = first(r.Header, "X-Forwarded-Uri", "X-Original-Uri")
	if out.RequestURI == "" {
		out.RequestURI = "/"
	}
	var err error
	if out.URL, err = Target(out.RequestURI); err != nil {
		return nil, err
	}
	if host := r.Header.Get("X-Forwarded-Host"); host != "" {
		out.Host = host
	}
	if client := lastForwarded(r.Header); client != "" {
		out.RemoteAddr = client
	}
	out.Header.Del(HeaderToken)
	return &out, nil
}

// Detail returns what is wrong with a request, of an error that wraps
// [ErrUnacceptable].
func Detail(err error) string {
	return strings.TrimPrefix(err.Error(), ErrUnacceptable.Error()+": ")
}

// Target reads the target of a request. The error wraps [ErrUnacceptable].
func Target(text string) (*url.URL, error) {
	u, err := url.ParseRequestURI(text)
	if err != nil {
		return nil, fmt.Errorf("%w: the request target is no URI", ErrUnacceptable)
	}
	return u, nil
}

// first returns the first header that is set.
func first(h http.Header, names ...string) string {
	for _, name := range names {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}

// lastForwarded returns the last address of X-Forwarded-For as a remote address,
// "" when there is none. However it is written, with a port or without, it is the
// same client.
func lastForwarded(h http.Header) string {
	all := h.Values("X-Forwarded-For")
	if len(all) == 0 {
		return ""
	}
	list := all[len(all)-1]
	client := strings.TrimSpace(list[strings.LastIndexByte(list, ',')+1:])
	if client == "" {
		return ""
	}
	if with, err := netip.ParseAddrPort(client); err == nil {
		return RemoteAddr(with.Addr())
	}
	if addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(client, "["), "]")); err == nil {
		return RemoteAddr(addr)
	}
	return net.JoinHostPort(client, "0") // "unknown", or what a proxy calls it
}

// RemoteAddr returns an address as [http.Request.RemoteAddr] has it, with port 0.
func RemoteAddr(a netip.Addr) string {
	return netip.AddrPortFrom(a.Unmap().WithZone(""), 0).String()
}
