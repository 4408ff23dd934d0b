package config

import (
	"fmt"
	"slices"
	"strings"
)

func (v validator) partitions(path string, in *Ingress) {
	p, proto := &in.Partitions, protocol(in.Protocol)
	for i, by := range p.By {
		at := v.at(path+".by", i)
		if problem := proto.identifier(by); problem != "" {
			v.relate(problem, by, at, pathOf(path)+".protocol")
		} else if slices.Contains(p.By[:i], by) {
			v.relate("is listed twice", by, at)
		}
	}
	if most := proto.parts(); len(p.By) > most {
		v.relate(fmt.Sprintf("lists more than %d for protocol %s", most, in.Protocol), len(p.By), path+".by", pathOf(path)+".protocol")
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
	if len(p.Named) > 0 && len(p.By) == 0 && in.Listen != "" && !proto.AlwaysBy {
		v.relate("is required for named partitions: without it every request belongs to default", nil, path+".by", path+".named")
	}
}

// pathOf is the path of the ingress that a path lies directly below.
func pathOf(path string) string { return path[:strings.LastIndexByte(path, '.')] }

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
