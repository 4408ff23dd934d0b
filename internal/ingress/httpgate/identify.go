package httpgate

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate/target"
	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// ErrBy is wrapped by [New] for an entry of Options.By that means nothing.
var ErrBy = errors.New("httpgate: partitions.by must be header:NAME, query:NAME, path, path:/pattern, client, client:BITS or constant:NAME")

// identifier turns requests into what the limiter needs to know. It is
// immutable and safe for concurrent use.
type identifier struct {
	keys       []keyFunc
	secrets    []bool   // of keys, those whose values are not to be shown; nil = none is
	named      []string // keys of named partitions, as in [Options.Named]
	exempt     Exempt
	operations target.Operations // exempt ones
	costs      target.Operations
	headers    []string    // canonical; those that make a key
	costHeader string      // canonical; "" = none
	usual      float64     // cost of what nothing else is known of
	classes    *classifier // nil = there are none
}

// keyFunc returns a request's partition key, "" when it has none.
type keyFunc func(r *http.Request) string

// Identifier returns what turns requests into what the limiter needs to know, as
// a gate with these options does, for requests that another proxy has before it.
// Of o it reads By, Named, Exempt, CostHeader, Costs, DefaultCost and Classes. wrong
// says why the gate would answer the request with 400; "" = it would not.
func Identifier(o Options) (func(r *http.Request) (req limiter.Request, wrong string), error) {
	o = o.WithDefaults()
	id, err := newIdentifier(&o)
	if err != nil {
		return nil, err
	}
	return func(r *http.Request) (req limiter.Request, wrong string) {
		if name := id.ambiguous(r); name != "" {
			wrong = twice(name)
		} else if !target.IsValid(r.RequestURI) {
			wrong = "the request target holds a space, a # or a control character"
		}
		return id.identify(r), wrong
	}, nil
}

// newIdentifier compiles what o says about identification.
func newIdentifier(o *Options) (*identifier, error) {
	id := &identifier{exempt: o.Exempt, costHeader: textproto.CanonicalMIMEHeaderKey(o.CostHeader), usual: o.DefaultCost}
	var problems []error
	if !(id.usual > 0 && id.usual <= limiter.MaxCost) {
		problems = append(problems, fmt.Errorf("default cost: must be > 0 and at most %g (%g)", limiter.MaxCost, id.usual))
	}
	for i, by := range o.By {
		key, err := parseBy(by)
		if isSecretPart(by) {
			if id.secrets == nil {
				id.secrets, id.named = make([]bool, len(o.By)), o.Named
			}
			id.secrets[i] = true
		}
		problems = append(problems, err)
		id.keys = append(id.keys, key)
		if name, ok := strings.CutPrefix(by, "header:"); ok {
			id.headers = append(id.headers, textproto.CanonicalMIMEHeaderKey(name))
		}
	}
	classes, err := newClassifier(o.Classes)
	id.classes, problems = classes, append(problems, err)
	if classes != nil {
		id.headers = append(id.headers, classes.headers...)
	}
	for _, op := range o.Exempt.Operations {
		problems = append(problems, id.operations.Add(op, 1))
	}
	for _, c := range o.Costs {
		if !(c.Tokens > 0 && c.Tokens <= limiter.MaxCost) {
			problems = append(problems, fmt.Errorf("cost of %q: must be > 0 and at most %g (%g)", c.Operation, limiter.MaxCost, c.Tokens))
		}
		problems = append(problems, id.costs.Add(c.Operation, c.Tokens))
	}
	return id, errors.Join(problems...)
}

// parseBy compiles one entry of Options.By.
func parseBy(by string) (keyFunc, error) {
	kind, arg, _ := strings.Cut(by, ":")
	switch {
	case by == "path":
		return wholePath, nil
	case by == "client":
		return func(r *http.Request) string { return host(r.RemoteAddr) }, nil
	case kind == "client" && arg != "":
		bits, ok := ingress.NetworkBits(by)
		if !ok {
			break
		}
		return func(r *http.Request) string { return network(r.RemoteAddr, bits) }, nil
	case kind == "path" && arg != "":
		pattern, err := target.NewPattern(arg)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrBy, err)
		}
		return func(r *http.Request) string { return pattern.Key(r.URL) }, nil
	case kind == "header" && strings.EqualFold(arg, "Host"):
		return site, nil
	case kind == "header" && arg != "":
		name := textproto.CanonicalMIMEHeaderKey(arg)
		return func(r *http.Request) string { return first(r.Header[name]) }, nil
	case kind == "query" && arg != "":
		return func(r *http.Request) string { return target.Value(r.URL.RawQuery, arg) }, nil
	case kind == "constant" && arg != "":
		return func(*http.Request) string { return arg }, nil
	}
	return nil, fmt.Errorf("%w (%q)", ErrBy, by)
}

// wholePath is the path as the most generous backend reads it: with another spelling
// a caller must not get another key.
func wholePath(r *http.Request) string {
	if target.IsClear(r.URL) {
		return r.URL.Path
	}
	return target.Loose(r.URL.Path)
}

// site returns the host that a request is for, in lower case and without its port
// or a dot at its end.
func site(r *http.Request) string {
	name := r.Host
	if i := strings.LastIndexByte(name, ':'); i > strings.LastIndexByte(name, ']') {
		name = name[:i]
	}
	return strings.ToLower(strings.TrimSuffix(name, "."))
}

// network returns the network of a remote address: the first bits of IPv4, the first
// 64 of IPv6; the host as it stands where it is no address.
func network(addr string, bits int) string {
	client, err := netip.ParseAddr(host(addr))
	if err != nil {
		return host(addr)
	}
	return string(ingress.AppendNetwork(nil, client.Unmap().WithZone(""), bits))
}

// identify is pure. It allocates only for a path pattern, an escaped query
// value, and a key that is put together or must be hashed.
func (id *identifier) identify(r *http.Request) limiter.Request {
	left := deadline(r)
	req := limiter.Request{Cost: id.cost(r), Exempt: id.isExempt(r), MaxWait: left, Deadline: left}
	req.Key = short(id.key(r, false))
	if id.classes != nil {
		id.classes.classify(r, &req)
	}
	if id.secrets != nil && !id.isNamed(req.Key) {
		req.Key = short(id.key(r, true)) // it becomes the name of a partition, for everybody to see
	}
	return req
}

// short returns what stands for a key: itself, unless it is too long.
func short(key string) string {
	if len(key) <= MaxKey {
		return key
	}
	sum := sha256.Sum256([]byte(key))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// key returns the partition key: of several parts one string (ADR 8), "" when
// all are empty. shown has secrets be represented by their digests.
func (id *identifier) key(r *http.Request, shown bool) string {
	if len(id.keys) == 1 {
		return id.part(0, r, shown)
	}
	var b strings.Builder
	some := false
	for i := range id.keys {
		if i > 0 {
			b.WriteByte('/')
		}
		part := id.part(i, r, shown)
		some = some || part != ""
		b.WriteString(part)
	}
	if !some {
		return ""
	}
	return b.String()
}

// part returns one part of the partition key.
func (id *identifier) part(i int, r *http.Request, shown bool) string {
	part := id.keys[i](r)
	if shown && id.secrets[i] {
		return digest(part)
	}
	return part
}

// cost returns the tokens that r spends.
func (id *identifier) cost(r *http.Request) float64 {
	if id.costHeader != "" {
		if text := first(r.Header[id.costHeader]); text != "" {
			if c, err := strconv.ParseFloat(text, 64); err == nil && c > 0 && c <= limiter.MaxCost {
				return c
			}
		}
	}
	if id.costs.IsEmpty() {
		return id.usual
	}
	dearest := 0.0
	for path := range target.Readings(r.URL) {
		dearest = max(dearest, id.priced(r.Method, path))
		if c, ok := id.costs.FindLoosely(r.Method, path); ok {
			dearest = max(dearest, c)
		}
	}
	return dearest
}

// priced returns the tokens that an operation spends.
func (id *identifier) priced(method, path string) float64 {
	if c, ok := id.costs.Find(method, path); ok {
		return c
	}
	return id.usual
}

// ambiguous returns a header of which gate and backend may see different values
// although it makes the partition key: one that is there twice, or that the client
// wants taken out on the way. "" = none.
func (id *identifier) ambiguous(r *http.Request) string {
	for _, name := range id.headers {
		if len(r.Header[name]) > 1 {
			return name
		}
		for _, listed := range r.Header["Connection"] {
			if upstream.HasToken(listed, name) {
				return name
			}
		}
	}
	return ""
}

// poses reports whether a header may pose at the backend as one that the gate
// decides by or writes: CGI and its heirs take X_Tenant for X-Tenant.
func (id *identifier) poses(name string) bool {
	if strings.IndexByte(name, '_') < 0 {
		return false
	}
	name = textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
	return upstream.IsOurs(name) || upstream.IsHop(name, "") || isForwarded(name) || name == id.costHeader || slices.Contains(id.headers, name)
}

// isExempt reports whether r is never refused.
func (id *identifier) isExempt(r *http.Request) bool {
	if len(id.exempt.CIDRs) > 0 {
		client, err := netip.ParseAddr(host(r.RemoteAddr))
		if err == nil && ingress.In(id.exempt.CIDRs, client.Unmap()) {
			return true
		}
	}
	if len(id.exempt.Applications) > 0 {
		app := application(r)
		if slices.ContainsFunc(id.exempt.Applications, func(p string) bool { return strings.HasPrefix(app, p) }) {
			return true
		}
	}
	if id.operations.IsEmpty() || !target.IsClear(r.URL) {
		return false
	}
	_, ok := id.operations.Find(r.Method, r.URL.Path)
	return ok
}

// deadline returns the client's patience, 0 when it announces none. What is
// not a decimal integer > 0 announces none.
func deadline(r *http.Request) time.Duration {
	text := first(r.Header[labels.HeaderDeadline])
	if text == "" {
		return grpcTimeout(first(r.Header["Grpc-Timeout"]))
	}
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil || ms <= 0 {
		return 0
	}
	const most = int64(24 * time.Hour / time.Millisecond)
	return time.Duration(min(ms, most)) * time.Millisecond
}

// grpcTimeout returns what gRPC calls carry: at most eight digits and a unit, 0
// for anything else.
func grpcTimeout(text string) time.Duration {
	if len(text) < 2 || len(text) > 9 {
		return 0
	}
	n, err := strconv.ParseUint(text[:len(text)-1], 10, 32)
	if err != nil {
		return 0
	}
	units := map[byte]time.Duration{
		'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': time.Nanosecond,
	}
	const most = 24 * time.Hour
	unit := units[text[len(text)-1]]
	if unit > 0 && n > uint64(most/unit) {
		return most
	}
	return time.Duration(n) * unit
}

// first returns the first value, "" when there is none.
func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// host returns the address without its port and brackets.
func host(addr string) string {
	if i := strings.LastIndexByte(addr, ':'); i >= 0 {
		addr = addr[:i]
	}
	return strings.TrimSuffix(strings.TrimPrefix(addr, "["), "]")
}
