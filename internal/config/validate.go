package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/admitd/admitd/internal/config/strict"
)

// validator reports what the shape of single values cannot show: forms, and
// relations between keys. Its methods are what checks say, and forms that several
// of them know; each check is a function.
type validator struct{ r *strict.Report }

// add reports that the value at path is wrong.
func (v validator) add(path, message string, value any) { v.r.Add(path, message, value) }

// relate reports what is wrong between several keys, the first of which is named.
func (v validator) relate(message string, value any, paths ...string) {
	v.r.Relate(message, value, paths...)
}

// validate reports everything that is wrong with a complete configuration.
func validate(r *strict.Report, c *Config) {
	v := validator{r: r}
	checkAdmin(v, &c.Admin)
	checkReads(v, &c.Admin)
	checkDecisions(v, c)
	checkTracing(v, &c.Tracing)
	if len(c.Ingresses) == 0 && !r.IsBad("ingresses") {
		v.add("ingresses", "needs at least one ingress", nil)
	}
	names := map[string]int{}
	for i := range c.Ingresses {
		in, path := &c.Ingresses[i], element("ingresses", i)
		checkIngress(v, path, in)
		if in.Listen == "" && in.Backend != "" && c.Decisions.Listen == "" && protocol(in.Protocol).Standalone {
			v.relate("is required when backend is set, or decisions.listen for an ingress that only decides", nil, path+".listen", path+".backend", "decisions.listen")
		}
		v.unique(names, i, "ingresses", "name", in.Name)
	}
	checkFleet(v, c)
	checkClashes(v, c)
	checkTuner(v, c)
	checkShadow(v, c)
}

// unique reports a name that an earlier element of the list has.
func (v validator) unique(names map[string]int, i int, listPath, key, name string) {
	if name == "" {
		return
	}
	if first, twice := names[name]; twice {
		v.relate(fmt.Sprintf("is the %s of %s too", key, element(listPath, first)), name, join(element(listPath, i), key))
		return
	}
	names[name] = i
}

func checkAdmin(v validator, a *Admin) {
	host, ok := v.address("admin.listen", a.Listen)
	if ok && !loopback(host) && a.TokenFile == "" && !a.Insecure {
		v.relate("is not a loopback address: set admin.tokenFile, or admin.insecure: true", a.Listen,
			"admin.listen", "admin.tokenFile", "admin.insecure")
	}
}

func checkDecisions(v validator, c *Config) {
	d := &c.Decisions
	v.serverTLS("decisions", &d.TLS)
	if d.Listen == "" {
		return
	}
	host, ok := v.address("decisions.listen", d.Listen)
	if ok && !loopback(host) && d.TokenFile == "" && d.TLS.ClientCAFile == "" && !d.Insecure {
		v.relate("is not a loopback address: set decisions.tokenFile, decisions.tls.clientCAFile, or decisions.insecure: true", d.Listen,
			"decisions.listen", "decisions.tokenFile", "decisions.tls.clientCAFile", "decisions.insecure")
	}
	if d.TokenFile != "" && d.TokenFile == c.Admin.TokenFile {
		v.relate("is admin.tokenFile too: who asks for permits could switch the gate off", d.TokenFile, "decisions.tokenFile", "admin.tokenFile")
	}
}

func checkReads(v validator, a *Admin) {
	if a.Reads == "token" && a.TokenFile == "" {
		v.relate("needs admin.tokenFile", a.Reads, "admin.reads", "admin.tokenFile")
	}
}

func checkTracing(v validator, t *Tracing) {
	if t.Endpoint == "" {
		return
	}
	u, err := url.Parse(t.Endpoint)
	if err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
		v.relate("must be a URL, such as http://127.0.0.1:4318", t.Endpoint, "tracing.endpoint")
	}
}

// address checks host:port with a numeric port and returns the host.
func (v validator) address(path, addr string) (string, bool) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		v.relate("must be host:port", addr, path)
		return "", false
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		v.relate("must have a port from 0 to 65535", addr, path)
		return "", false
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostname(host) {
		v.relate("must begin with an address or a host name", addr, path)
		return "", false
	}
	return host, true
}

// hostname reports whether s may be a DNS name. All-digit last labels are
// refused: 127.0.0.300 is a mistyped address, not a name.
func hostname(s string) bool {
	if len(s) > 253 {
		return false
	}
	labels := strings.Split(strings.TrimSuffix(s, "."), ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.Trim(l, nameLetters+"-_") != "" || l[0] == '-' || l[len(l)-1] == '-' {
			return false
		}
	}
	return strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback()
}

// checkClashes reports listeners that cannot both be opened.
func checkClashes(v validator, c *Config) {
	type listener struct{ path, addr string }
	all := []listener{{"admin.listen", c.Admin.Listen}}
	if c.Decisions.Listen != "" {
		all = append(all, listener{"decisions.listen", c.Decisions.Listen})
	}
	for i := range c.Ingresses {
		if a := c.Ingresses[i].Listen; a != "" {
			all = append(all, listener{element("ingresses", i) + ".listen", a})
		}
	}
	for i, a := range all {
		for _, b := range all[:i] {
			if clash(a.addr, b.addr) {
				v.relate(fmt.Sprintf("clashes with %s %s", b.path, b.addr), a.addr, a.path, b.path)
				break
			}
		}
	}
}

// clash reports whether two addresses cannot be listened on at once: the same
// port on the same host, or on all hosts. Port 0 is any free one.
func clash(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	if errA != nil || errB != nil || portA != portB || portA == "0" {
		return false
	}
	return wildcard(hostA) || wildcard(hostB) || sameHost(hostA, hostB)
}

func wildcard(host string) bool {
	a, err := netip.ParseAddr(host)
	return host == "" || err == nil && a.IsUnspecified()
}

func sameHost(a, b string) bool {
	x, errX := netip.ParseAddr(a)
	y, errY := netip.ParseAddr(b)
	if errX == nil && errY == nil {
		return x.Unmap() == y.Unmap()
	}
	return strings.EqualFold(strings.TrimSuffix(a, "."), strings.TrimSuffix(b, ".")) ||
		loopback(a) && loopback(b) && (errX != nil || errY != nil)
}

// The words of package strict that checks are full of.
func element(path string, i int) string { return strict.Element(path, i) }

func join(path, key string) string { return strict.Join(path, key) }

func list(words []string) string { return strict.OneOf(words) }
