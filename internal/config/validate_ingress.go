package config

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

const nameLetters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func checkIngress(v validator, path string, in *Ingress) {
	v.name(path+".name", in.Name)
	if in.Listen != "" {
		v.address(path+".listen", in.Listen)
	}
	checkBackend(v, path, in)
	checkProxyProtocol(v, path, in)
	checkTLS(v, path, in)
	proto := protocol(in.Protocol)
	if proto.Costs {
		checkCost(v, path+".cost", in)
	}
	checkRequests(v, path+".requests", in)
	checkPartitions(v, path+".partitions", in)
	checkClasses(v, path+".classes", in)
	if !proto.Statuses && in.Rejection.Status != 0 {
		v.relate(onlyFor(func(p *Protocol) bool { return p.Statuses }), int(in.Rejection.Status), path+".rejection.status", path+".protocol")
	}
	if at := path + ".connections.reserved"; in.Connections.Reserved > 0 {
		switch {
		case !proto.Reserves:
			v.relate(onlyFor(func(p *Protocol) bool { return p.Reserves }), in.Connections.Reserved, at, path+".protocol")
		case in.Connections.Reserved >= in.Connections.MaxOpen:
			v.relate("must be less than maxOpen", in.Connections.Reserved, at, path+".connections.maxOpen")
		}
	}
	if proto.check != nil {
		proto.check(v, path, in)
	}
}

// onlyFor says that a key belongs to the protocols that have something.
func onlyFor(has func(p *Protocol) bool) string {
	return "belongs to protocol " + list(protocolsThat(has)) + " only"
}

// name checks what becomes a label of metrics and a part of URLs.
func (v validator) name(path, name string) {
	switch {
	case name == "":
		v.relate("must not be empty", nil, path)
	case len(name) > 64:
		v.relate("is longer than 64 characters", name, path)
	case strings.Trim(name, nameLetters+"._-") != "":
		v.relate("may hold letters, digits, dot, dash and underscore only", name, path)
	case strings.Trim(name[:1], nameLetters) != "":
		v.relate("must begin with a letter or a digit", name, path)
	}
}

// checkProxyProtocol checks that not everybody may say who the client is.
func checkProxyProtocol(v validator, path string, in *Ingress) {
	at, from := path+".proxyProtocol", path+".proxyProtocolFrom"
	switch {
	case !in.ProxyProtocol && len(in.ProxyProtocolFrom) > 0:
		v.relate("must be true with proxyProtocolFrom", false, at, from)
	case in.ProxyProtocol && len(in.ProxyProtocolFrom) == 0 && in.Listen != "" && !nearby(in.Listen):
		v.relate("is required: listen is neither a loopback nor a private address, and whoever connects could claim any", nil, from, at, path+".listen")
	}
}

// nearby reports whether only neighbours can connect to addr.
func nearby(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil || host == "localhost" {
		return true // an address that is none is told elsewhere
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}

// checkBackend checks where requests go: a listener needs a backend and a backend a
// listener; without both the gate serves the decision API.
func checkBackend(v validator, path string, in *Ingress) {
	at, listen := path+".backend", path+".listen"
	proto := protocol(in.Protocol)
	switch {
	case in.Backend == "" && in.Listen == "":
		if !proto.Standalone {
			v.relate("is required for protocol "+in.Protocol, nil, listen, path+".protocol")
			v.relate("is required for protocol "+in.Protocol, nil, at, path+".protocol")
		}
		return
	case in.Backend == "":
		v.relate("is required when listen is set", nil, at, listen)
		return
	case in.Listen == "" && !proto.Standalone:
		v.relate("is required when backend is set", nil, listen, at)
	}
	if len(proto.Schemes) > 0 && (!proto.HostPort || strings.Contains(in.Backend, "://")) {
		v.backendURL(at, in.Backend, proto.Schemes...)
	} else {
		v.dialAddress(at, in.Backend)
	}
	if in.Listen != "" && clash(hostPort(in.Backend), in.Listen) && !wildcardListen(in.Listen) {
		v.relate("is the gate's own address", in.Backend, at, listen)
	}
}

// BackendAddress returns host:port of the backend, in lower case, "" when there is none.
// Ingresses with the same one stand before the same backend.
func (in *Ingress) BackendAddress() string {
	address := strings.ToLower(hostPort(in.Backend))
	if u, err := url.Parse(in.Backend); err == nil && u.Host != "" && u.Port() == "" {
		port := map[string]string{"http": "80", "https": "443", "pulsar": "6650", "pulsar+ssl": "6651"}[u.Scheme]
		address = net.JoinHostPort(strings.Trim(address, "[]"), port)
	}
	return address
}

// backendURL checks a URL of one of the schemes that names a host and nothing
// beyond.
func (v validator) backendURL(path, s string, schemes ...string) {
	u, err := url.Parse(s)
	switch {
	case err == nil && slices.Contains(schemes, "http") && slices.Contains([]string{"h2", "h2c", "grpc", "grpcs"}, u.Scheme):
		v.relate("must be http:// or https://: "+speaksHTTP1, s, path)
	case err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme):
		v.relate(fmt.Sprintf("must be a URL, such as %s://127.0.0.1:9000", schemes[0]), s, path)
	case u.User != nil:
		v.relate("must not hold a user or password", s, path)
	case u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "":
		v.relate("must end after the port", s, path)
	case u.Port() != "":
		v.dialAddress(path, u.Host)
	}
}

// dialAddress checks host:port of something that is connected to.
func (v validator) dialAddress(path, addr string) {
	host, ok := v.address(path, addr)
	if ok && (host == "" || strings.HasSuffix(addr, ":0")) {
		v.relate("must name a host and a port", addr, path)
	}
}

func hostPort(backend string) string {
	if u, err := url.Parse(backend); err == nil && u.Host != "" {
		return u.Host
	}
	return backend
}

func wildcardListen(addr string) bool {
	return strings.HasPrefix(addr, ":") || strings.HasPrefix(addr, "0.0.0.0:") || strings.HasPrefix(addr, "[::]:")
}

func (v validator) serverTLS(path string, t *ServerTLS) {
	v.pair(path+".tls", t.CertFile, t.KeyFile)
	if t.ClientCAFile != "" && t.CertFile == "" {
		v.relate("needs certFile and keyFile", t.ClientCAFile, path+".tls.clientCAFile", path+".tls.certFile")
	}
}

func checkTLS(v validator, path string, in *Ingress) {
	v.serverTLS(path, &in.TLS)
	b := &in.BackendTLS
	v.pair(path+".backendTLS", b.CertFile, b.KeyFile)
	if set := *b != (ClientTLS{}); set && !b.Enabled && !impliesTLS(in.Backend) {
		v.relate("must be true, or the other keys of backendTLS be left out", false, path+".backendTLS.enabled")
	}
	if b.Enabled && strings.HasPrefix(in.Backend, "http://") {
		v.relate("contradicts a backend that begins with http://", true, path+".backendTLS.enabled", path+".backend")
	}
}

func impliesTLS(backend string) bool {
	return strings.HasPrefix(backend, "https://") || strings.HasPrefix(backend, "pulsar+ssl://")
}

func (v validator) pair(path, cert, key string) {
	if cert != "" && key == "" {
		v.relate("is required with certFile", nil, path+".keyFile", path+".certFile")
	}
	if key != "" && cert == "" {
		v.relate("is required with keyFile", nil, path+".certFile", path+".keyFile")
	}
}

func checkCost(v validator, path string, in *Ingress) {
	if h := in.Cost.Header; h != "" && !isToken(h) {
		v.relate("is not a header name", h, path+".header")
	}
	proto := protocol(in.Protocol)
	if !proto.CostHeader && in.Cost.Header != "" {
		v.relate(onlyFor(func(p *Protocol) bool { return p.CostHeader }), in.Cost.Header, path+".header")
	}
	for _, op := range slices.Sorted(maps.Keys(in.Cost.ByOperation)) {
		v.operation(join(path+".byOperation", op), op, proto, true)
	}
	if in.Cost.Shapes.Learn && (len(in.Cost.ByOperation) > 0 || in.Cost.Header != "" || in.Cost.Default != 1) {
		v.relate("is learned, or told by default, byOperation and header: not both", true, path+".shapes.learn")
	}
}

func checkRequests(v validator, path string, in *Ingress) {
	proto := protocol(in.Protocol)
	if u := in.Requests.Unauthenticated; u != "auto" && !proto.Strangers {
		v.relate(onlyFor(func(p *Protocol) bool { return p.Strangers })+": elsewhere a connection logs in before it may ask, or never", u,
			path+".unauthenticated", pathOf(path)+".protocol")
	}
	if !proto.Exempts {
		if e := &in.Requests.Exempt; len(e.CIDRs)+len(e.Applications)+len(e.Operations) > 0 {
			v.relate(onlyFor(func(p *Protocol) bool { return p.Exempts }), nil, path+".exempt", pathOf(path)+".protocol")
		}
		return
	}
	for i, op := range in.Requests.Exempt.Operations {
		v.operation(v.at(path+".exempt.operations", i), op, proto, false)
	}
	for i, app := range in.Requests.Exempt.Applications {
		if app == "" {
			v.relate("must not be empty", nil, v.at(path+".exempt.applications", i))
		}
	}
}

// at is the path of an element of a list that may be written as its only one.
func (v validator) at(path string, i int) string {
	if p := element(path, i); v.r.IsWritten(p) || i > 0 {
		return p
	}
	return path
}

// operation checks the spelling of an operation; in costs it may be a class too.
func (v validator) operation(path, op string, p *Protocol, inCosts bool) {
	if inCosts && slices.Contains(p.Classes, op) || p.Operation == nil {
		return
	}
	if problem := p.Operation(op); problem != "" {
		v.relate(problem, op, path)
	}
}

// isToken reports whether s is a token of RFC 9110, the form of header names and
// methods.
func isToken(s string) bool {
	return s != "" && len(s) <= 256 && strings.Trim(s, nameLetters+"!#$%&'*+-.^_`|~") == ""
}
