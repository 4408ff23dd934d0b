package config

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// Classes says who goes first when not everything fits: critical-plus, critical,
// sheddable-plus, sheddable, and exempt beside them, which is counted and never
// refused.
type Classes struct {
	// What a request claims its class with; the first that says anything counts.
	// HTTP: header:NAME, query:NAME, priority (the urgency of RFC 9218, which
	// browsers send too). MongoDB: comment, application, readPreference.
	// PostgreSQL: application, comment:KEY. Pulsar: metadata:KEY, producer. Free
	// texts claim a class by class=NAME.
	By []string `yaml:"by" single:"true"`
	// Addresses, CIDRs, users or beginnings of applications' names that may claim
	// any class. A claim of anybody else only ever lowers the class.
	Trust []string `yaml:"trust" single:"true"`
	// Class of requests that nothing else is known of.
	Default string `yaml:"default" default:"critical" enum:"critical-plus critical sheddable-plus sheddable"`
	// Classes by what is asked and who asks. The first rule that matches counts.
	Rules []ClassRule `yaml:"rules"`
	// Share of what gets in that shedding leaves to a class, and at least one
	// request a second; 0.01 where nothing is said, 0 = none.
	Floor map[string]float64 `yaml:"floor" min:"0" max:"0.5"`
}

// ClassRule gives a class to requests that match each of its lists. An empty
// list matches everything.
type ClassRule struct {
	// Operations, spelled as in requests.exempt.operations.
	Operations []string `yaml:"operations" single:"true"`
	// Beginnings of the application names that clients announce.
	Applications []string `yaml:"applications" single:"true"`
	// Users: of MongoDB user@database, of PostgreSQL roles.
	Users []string `yaml:"users" single:"true"`
	// Keys of partitions; a trailing * stands for any rest.
	Partitions []string `yaml:"partitions" single:"true"`
	// The class.
	Class string `yaml:"class" required:"true" enum:"critical-plus critical sheddable-plus sheddable exempt"`
}

// Given reports whether requests differ in class at all.
func (c *Classes) Given() bool {
	return len(c.By)+len(c.Rules) > 0 || c.Default != "critical"
}

// defaultFloor is the floor of a class that the configuration does not name.
const defaultFloor = 0.01

// FloorOf returns the floor of a class.
func (c *Classes) FloorOf(class string) float64 {
	if share, ok := c.Floor[class]; ok {
		return share
	}
	return defaultFloor
}

// classWords are the classes that can be refused.
func classWords() []string {
	return []string{"critical-plus", "critical", "sheddable-plus", "sheddable"}
}

// checkClasses checks who goes first.
func checkClasses(v validator, path string, in *Ingress) {
	c, proto := &in.Classes, protocol(in.Protocol)
	for i, by := range c.By {
		at := v.at(path+".by", i)
		if problem := proto.identifier(proto.Claims, by); problem != "" {
			v.relate(problem, by, at, pathOf(path)+".protocol")
		} else if slices.Contains(c.By[:i], by) {
			v.relate("is listed twice", by, at)
		}
	}
	if len(c.Trust) > 0 && len(c.By) == 0 {
		v.relate("is required for trust: without it nobody can claim a class", nil, path+".by", path+".trust")
	}
	for i, who := range c.Trust {
		if at := v.at(path+".trust", i); who == "" {
			v.relate("must not be empty", nil, at)
		} else if strings.Contains(who, "/") && !isPrefix(who) && strings.Trim(who, "0123456789abcdefABCDEF.:/") == "" {
			v.relate("is no CIDR, such as 10.0.0.0/8", who, at)
		}
	}
	for i := range c.Rules {
		checkClassRule(v, element(path+".rules", i), &c.Rules[i], proto)
	}
	for _, class := range slices.Sorted(maps.Keys(c.Floor)) {
		if !slices.Contains(classWords(), class) {
			v.relate("must be "+list(classWords()), class, join(path+".floor", class))
		}
	}
}

// checkClassRule checks one rule.
func checkClassRule(v validator, path string, r *ClassRule, proto *Protocol) {
	if len(r.Operations)+len(r.Applications)+len(r.Users)+len(r.Partitions) == 0 {
		v.relate("matches every request: write default instead", nil, path)
	}
	for i, op := range r.Operations {
		at := v.at(path+".operations", i)
		if proto.Operation == nil {
			v.relate("knows no operations: protocol "+proto.Name, op, at)
			continue
		}
		v.operation(at, op, proto, false)
	}
	if len(r.Users) > 0 && !proto.Users {
		v.relate(onlyFor(func(p *Protocol) bool { return p.Users }), nil, path+".users")
	}
	for i, key := range r.Partitions {
		if star := strings.IndexByte(key, '*'); star >= 0 && star < len(key)-1 {
			v.relate("may hold * at its end only", key, v.at(path+".partitions", i))
		}
	}
}

// isPrefix reports whether s is an address or a CIDR.
func isPrefix(s string) bool {
	if _, err := netip.ParseAddr(s); err == nil {
		return true
	}
	_, err := netip.ParsePrefix(s)
	return err == nil
}
