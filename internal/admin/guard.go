package admin

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/admitd/admitd/internal/httpjson"
)

// contentPolicy lets the live page load what the port itself serves, and
// nothing from anywhere else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// secureHeaders sets what browsers must know of every answer.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// boundProfile gives profiles the time that they take by design.
func boundProfile(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		httpjson.Extend(w, profileTimeout)
		next.ServeHTTP(w, r)
	})
}

// guard says who may come in.
type guard struct {
	o       *Options
	token   atomic.Pointer[[]bearer] // nil = none
	exposed atomic.Bool              // others than this machine can reach the listener
}

// setToken is [Server.SetToken].
func (g *guard) setToken(text string) error {
	all, err := parseTokens(text)
	if err != nil {
		return err
	}
	if len(all) > 0 {
		g.token.Store(&all)
		return nil
	}
	if g.exposed.Load() && g.token.Load() != nil {
		return ErrExposed
	}
	g.token.Store(nil)
	return nil
}

// guardHost refuses foreign host names to who does not present the token: a web
// page can make a browser ask for its own name at an address that the browser
// reaches, and would read the answer as its own. It needs a name for that: where
// there is a token to protect what changes something, addresses and this
// machine's own name will do.
func (g *guard) guardHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token := g.token.Load()
		known := g.o.Insecure || localHost(r.Host) || token != nil && (g.ownHost(r.Host) || carries(r, token))
		if !known {
			httpjson.Fail(w, http.StatusMisdirectedRequest, "without the token this port answers to localhost and to addresses only")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ownHost reports whether host, with or without a port, is an address or this
// machine's name, none of which a foreign page can make its own.
func (g *guard) ownHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	return g.o.Hostname != "" && strings.EqualFold(strings.TrimSuffix(host, "."), g.o.Hostname)
}

// localHost reports whether host, with or without a port, names this machine
// and cannot be made to name another.
func localHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && ip.IsLoopback()
}

// sameOrigin refuses what a browser sends on behalf of another site.
func sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		httpjson.Fail(w, http.StatusForbidden, "cross-origin request")
	}))
	return protection.Handler(next)
}

// authorize asks for the token when there is one.
func (g *guard) authorize(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if want := g.token.Load(); want != nil && !carries(r, want) {
			challenge(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// tokenOnly asks for the token and refuses when there is none to ask for.
func (g *guard) tokenOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		want := g.token.Load()
		switch {
		case want == nil:
			httpjson.Fail(w, http.StatusForbidden, "profiles are served only when admin.tokenFile is set")
		case !carries(r, want):
			challenge(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// carries reports whether the request carries one of the tokens.
func carries(r *http.Request, want *[]bearer) bool { return carried(r, *want) != nil }

func challenge(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="admitd"`)
	why := "a bearer token is needed"
	if r.Header.Get("Authorization") != "" {
		why += ", and this is not one of this port"
	}
	httpjson.Fail(w, http.StatusUnauthorized, why)
}

// jsonOnly refuses bodies that a plain web form could have sent.
func jsonOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if err != nil || kind != "application/json" && kind != "application/merge-patch+json" {
				httpjson.Fail(w, http.StatusUnsupportedMediaType, "the body must be application/json")
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
