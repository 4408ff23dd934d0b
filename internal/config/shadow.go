package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// maxShadow is how many candidates there may be.
const maxShadow = 4

// Shadow is a candidate: other limits that decide on the requests of an ingress
// and refuse nobody.
type Shadow struct {
	// Unique name; a label of metrics.
	Name string `yaml:"name" required:"true"`
	// The ingress whose requests it decides on.
	Ingress string `yaml:"ingress" required:"true"`
	// What differs from the requests of the ingress.
	Requests Overlay `yaml:"requests"`
	// What differs from the partitions of the ingress; named ones are found by
	// their name, and a limit whose algorithm changes is replaced as a whole.
	Partitions Overlay `yaml:"partitions"`
}

// Document returns the candidate as a patch of its ingress, see [Config.Patch].
func (s *Shadow) Document() ([]byte, error) {
	doc := map[string]Overlay{}
	if len(s.Requests) > 0 {
		doc["requests"] = s.Requests
	}
	if len(s.Partitions) > 0 {
		doc["partitions"] = s.Partitions
	}
	b, err := json.Marshal(doc)
	if err != nil {
		return nil, fmt.Errorf("config: candidate %s: %w", s.Name, err)
	}
	return b, nil
}

// Candidate returns the ingress of a candidate with its changes laid over it. An
// error is of type [Problems], under the name "patch".
func (c *Config) Candidate(s *Shadow) (*Ingress, error) {
	doc, err := s.Document()
	if err != nil {
		return nil, err
	}
	base := *c
	base.Shadow, base.Tuner.Policies = nil, nil // they would be validated again, and none adjusts a candidate
	next, _, err := base.patch(s.Ingress, doc)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(next.Ingresses, func(in Ingress) bool { return in.Name == s.Ingress })
	return &next.Ingresses[i], nil
}

// checkShadow checks the candidates, as a patch of their ingress would be.
func checkShadow(v validator, c *Config) {
	if len(c.Shadow) > maxShadow {
		v.relate(fmt.Sprintf("lists more than %d", maxShadow), len(c.Shadow), "shadow")
	}
	names := map[string]int{}
	for i := range c.Shadow {
		s, path := &c.Shadow[i], element("shadow", i)
		v.name(path+".name", s.Name)
		v.unique(names, i, "shadow", "name", s.Name)
		v.knownIngress(path+".ingress", c, s.Ingress)
	}
	if !v.r.IsEmpty() {
		return // what a candidate differs from is not known to be valid
	}
	for i := range c.Shadow {
		checkCandidate(v, element("shadow", i), c, &c.Shadow[i])
	}
}

// checkCandidate reports what is wrong with one candidate where it is written.
func checkCandidate(v validator, path string, c *Config, s *Shadow) {
	_, err := c.Candidate(s)
	var problems Problems
	if !errors.As(err, &problems) {
		if err != nil {
			v.r.AtLine(0, path, err.Error())
		}
		return
	}
	for _, p := range problems {
		if _, below, found := strings.Cut(p.Path, "]."); found {
			p.Path = path + "." + below
		}
		p.File, p.Line = v.r.Origin(p.Path)
		v.r.Put(p)
	}
}
