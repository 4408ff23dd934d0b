package config

import (
	"fmt"
	"slices"
	"strings"
)

func (v validator) partitions(path string, in *Ingress) {
	p := &in.Partitions
	for i, by := range p.By {
		at := v.at(path+".by", i)
		if problem := identifier(by, in.Protocol); problem != "" {
			v.relate(problem, by, at, pathOf(path)+".protocol")
		} else if slices.Contains(p.By[:i], by) {
			v.relate("is listed twice", by, at)
		}
	}
	if len(p.By) > 8 {
		v.relate("lists more than 8 parts", len(p.By), path+".by")
	}
	v.limit(path+".default.limit", &p.Default.Limit)
	names, matches := map[string]int{}, map[string]int{}
	for i := range p.Named {
		n, at := &p.Named[i], element(path+".named", i)
		v.name(at+".name", n.Name)
		if n.Name == "default" || n.Name == "overflow" {
			v.relate("is the name of a partition that exists in every gate", n.Name, at+".name")
		}
		if star := strings.IndexByte(n.Match, '*'); star >= 0 && star < len(n.Match)-1 {
			v.relate("may hold * at its end only", n.Match, at+".match")
		}
		v.unique(names, i, path+".named", "name", n.Name)
		v.unique(matches, i, path+".named", "match", n.Match)
		v.limit(at+".limit", &n.Limit)
	}
	if len(p.Named) > 0 && len(p.By) == 0 && in.Listen != "" {
		v.relate("is required for named partitions: without it every request belongs to default", nil, path+".by", path+".named")
	}
}

func pathOf(partitions string) string { return strings.TrimSuffix(partitions, ".partitions") }

// limit checks the relations between the keys of one limit. Fields that do not
// belong to the algorithm are zero.
func (v validator) limit(path string, l *Limit) {
	initial, least, most := path+".initialLimit", path+".minLimit", path+".maxLimit"
	if l.MinLimit > l.MaxLimit && l.Algorithm != "fixed" {
		v.relate("must be at most maxLimit", l.MinLimit, least, most)
	} else {
		if l.InitialLimit < l.MinLimit {
			v.relate("must be at least minLimit", l.InitialLimit, initial, least)
		}
		if l.InitialLimit > l.MaxLimit {
			v.relate("must be at most maxLimit", l.InitialLimit, initial, most)
		}
	}
	if l.Algorithm == "vegas" && l.Alpha >= l.Beta {
		v.relate("must be below beta", l.Alpha, path+".alpha", path+".beta")
	}
	if l.Window.Min > l.Window.Max {
		v.relate("must be at most window.max", l.Window.Min, path+".window.min", path+".window.max")
	}
}

// identifier says what is wrong with a part that identifies a partition, or
// nothing.
func identifier(by, protocol string) string {
	kind, arg, hasArg := strings.Cut(by, ":")
	if kind == "constant" {
		if !hasArg || arg == "" {
			return "needs a name, such as constant:all"
		}
		return ""
	}
	kinds := kindsOf(protocol)
	if !slices.Contains(kinds, kind) {
		message := "must begin with " + list(append(kinds, "constant")) + " for protocol " + protocol
		if n := nearest(kind, kinds); n != "" {
			message += fmt.Sprintf(", did you mean %q?", n)
		}
		return message
	}
	switch {
	case kind == "header" && !isToken(arg):
		return "needs the name of a header, such as header:X-Tenant"
	case kind == "query" && arg == "":
		return "needs the name of a parameter, such as query:tenant"
	case kind == "path" && hasArg:
		return pattern(arg)
	case kind != "header" && kind != "query" && hasArg:
		return "takes no argument"
	}
	return ""
}

func kindsOf(protocol string) []string {
	switch protocol {
	case "mongodb":
		return []string{"database", "collection", "command", "application", "user", "client"}
	case "pulsar":
		return []string{"topic", "namespace", "tenant", "client"}
	default:
		return []string{"header", "query", "path", "client"}
	}
}

// pattern says what is wrong with a path pattern such as /v1/{tenant}/items,
// or nothing.
func pattern(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "needs a pattern that begins with a slash, such as path:/v1/{tenant}"
	}
	found := false
	for segment := range strings.SplitSeq(p[1:], "/") {
		if !strings.ContainsAny(segment, "{}") {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(segment, "{"), "}")
		if len(name) != len(segment)-2 || name == "" || strings.Trim(name, nameLetters+"_") != "" {
			return "has a segment that is neither plain nor one {name}"
		}
		found = true
	}
	if !found {
		return "has no {name}, so it identifies nothing; use constant:NAME"
	}
	return ""
}
