package target

import (
	"net/url"
	"strings"
)

// Pattern takes keys out of paths: /t/{tenant}/*. It is immutable.
type Pattern struct {
	text     string
	segments []string // of which {name} is a parameter, and a last * any rest
}

// NewPattern returns the pattern of a text that [Operations.Add] takes.
func NewPattern(text string) (Pattern, error) {
	if err := new(Operations).Add(text, 1); err != nil {
		return Pattern{}, err
	}
	return Pattern{text: text, segments: strings.Split(text, "/")}, nil
}

// Key returns the parameters of the path of u when it matches, joined by "/", and the
// pattern itself when it has none; "" when it does not match. The path is read as
// the most generous backend reads it, see [Loose], with or without a slash at its
// end, and with words in upper or lower case: a caller must not get another key by
// another spelling.
func (p Pattern) Key(u *url.URL) string {
	path := u.Path
	if !IsClear(u) {
		path = Loose(path)
	}
	key, ok := p.match(path)
	if !ok {
		key, ok = p.match(strings.TrimSuffix(path, "/"))
	}
	if ok && key == "" {
		return p.text
	}
	return key
}

// match walks along both. A lone parameter is part of the path; several are joined.
func (p Pattern) match(path string) (key string, ok bool) {
	last := len(p.segments) - 1
	for i, want := range p.segments {
		if i == last && want == "*" {
			return key, true
		}
		segment, rest, more := strings.Cut(path, "/")
		switch {
		case more == (i == last): // one is longer than the other
			return "", false
		case strings.HasPrefix(want, "{"):
			if segment == "" {
				return "", false
			}
			if key != "" {
				key += "/"
			}
			key += segment
		case !strings.EqualFold(want, segment):
			return "", false
		}
		path = rest
	}
	return key, true
}
