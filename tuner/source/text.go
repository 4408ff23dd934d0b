package source

import (
	"fmt"
	"strconv"
	"strings"
)

// maxLine bounds one line of a text endpoint.
const maxLine = 64 << 10

// sample is one line of the Prometheus text format.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// samplesOf reads the samples of a metric from the Prometheus or OpenMetrics
// text format. Lines of other metrics are not looked into.
func samplesOf(text, metric string) ([]sample, error) {
	var out []sample
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		rest, found := strings.CutPrefix(line, metric)
		if !found || rest == "" || !strings.ContainsAny(rest[:1], "{ \t") {
			continue
		}
		if len(line) > maxLine {
			return nil, fmt.Errorf("%w: a line of %d bytes", ErrForm, len(line))
		}
		s, err := parseSample(metric, rest)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// parseSample reads what follows the name: labels, a value, perhaps a time and
// an exemplar, which are of no interest.
func parseSample(name, rest string) (s sample, err error) {
	s = sample{name: name, labels: map[string]string{}}
	if rest[0] == '{' {
		if rest, err = parseLabels(rest[1:], s.labels); err != nil {
			return s, err
		}
	}
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return s, fmt.Errorf("%w: %s has no value", ErrForm, name)
	}
	if s.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return s, fmt.Errorf("%w: value of %s: %q", ErrForm, name, fields[0])
	}
	return s, nil
}

// parseLabels reads labels up to and with the closing brace into m, and returns
// what follows.
func parseLabels(text string, m map[string]string) (rest string, err error) {
	for {
		text = strings.TrimLeft(text, " \t,")
		if after, done := strings.CutPrefix(text, "}"); done {
			return after, nil
		}
		key, after, found := strings.Cut(text, "=")
		after = strings.TrimLeft(after, " \t")
		if !found || after == "" || after[0] != '"' {
			return "", fmt.Errorf("%w: labels: %.40q", ErrForm, text)
		}
		var value string
		if value, text, err = parseQuoted(after[1:]); err != nil {
			return "", err
		}
		m[strings.TrimSpace(key)] = value
	}
}

// parseQuoted reads up to the closing quote.
func parseQuoted(text string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return b.String(), text[i+1:], nil
		case c != '\\':
			b.WriteByte(c)
		case i+1 < len(text):
			i++
			if c = text[i]; c == 'n' {
				c = '\n'
			}
			b.WriteByte(c)
		}
	}
	return "", "", fmt.Errorf("%w: a label value does not end: %.40q", ErrForm, text)
}

// matches reports whether the sample has all of the labels.
func (s *sample) matches(labels map[string]string) bool {
	for k, v := range labels {
		if s.labels[k] != v {
			return false
		}
	}
	return true
}
