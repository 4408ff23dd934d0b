package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// sample is one sample of the exposition.
type sample struct {
	name   string
	labels map[string]string
	value  float64
}

// metrics is what /metrics says.
type metrics []sample

// sum adds up the samples of a name whose labels are such as label=value.
func (m metrics) sum(name string, match ...string) (sum float64) {
	for _, s := range m {
		if s.name == name && s.has(match) {
			sum += s.value
		}
	}
	return sum
}

// by adds them up by a label, without zeros.
func (m metrics) by(label, name string, match ...string) map[string]float64 {
	out := map[string]float64{}
	for _, s := range m {
		if s.name == name && s.has(match) && s.value != 0 {
			out[s.labels[label]] += s.value
		}
	}
	return out
}

func (s *sample) has(match []string) bool {
	for _, m := range match {
		if k, v, _ := strings.Cut(m, "="); s.labels[k] != v {
			return false
		}
	}
	return true
}

// counters adds up what may only grow, by family and ingress.
func (m metrics) counters() map[string]float64 {
	out := map[string]float64{}
	for _, s := range m {
		if strings.HasPrefix(s.name, "admitd_") && (strings.HasSuffix(s.name, "_total") || strings.HasSuffix(s.name, "_count")) {
			out[s.name+" of "+s.labels["ingress"]] += s.value
		}
	}
	return out
}

// parse reads the text format.
func parse(r io.Reader) (metrics, error) {
	var m metrics
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		s := sample{labels: map[string]string{}}
		rest := line
		if i := strings.IndexByte(line, '{'); i >= 0 {
			s.name, rest = line[:i], line[i+1:]
			for rest[0] != '}' {
				k, v, _ := strings.Cut(rest, "=")
				quoted, err := strconv.QuotedPrefix(v)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", line, err)
				}
				if s.labels[k], err = strconv.Unquote(quoted); err != nil {
					return nil, fmt.Errorf("%s: %w", line, err)
				}
				rest = strings.TrimPrefix(v[len(quoted):], ",")
			}
			rest = rest[1:]
		} else {
			s.name, rest, _ = strings.Cut(line, " ")
		}
		var err error
		if s.value, err = strconv.ParseFloat(strings.Fields(rest)[0], 64); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		m = append(m, s)
	}
	return m, lines.Err()
}

// counts are those of the status, by their names there.
type counts map[string]any

// number returns one of them.
func (c counts) number(name string) float64 {
	switch v := c[name].(type) {
	case float64:
		return v
	case map[string]any:
		sum := 0.0
		for x := range maps.Values(v) {
			f, _ := x.(float64)
			sum += f
		}
		return sum
	}
	return 0
}

// ingressStatus is what is read of the status of an ingress.
type ingressStatus struct {
	Name                    string
	Verdict                 struct{ Condition, Text string }
	Counts                  counts
	InFlight, Queued, Limit int
	P50MS, P99MS            float64
	Connections             struct{ Open, Accepted float64 }
	Responses, Invalid      map[string]float64
	Partitions              []struct {
		Name, Label string
		Counts      counts
	}
}

// get reads a page of an admin port.
func get(ctx context.Context, url string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, res.StatusCode)
	}
	switch v := into.(type) {
	case *metrics:
		*v, err = parse(res.Body)
		return err
	case *string:
		b, err := io.ReadAll(res.Body)
		*v = string(b)
		return err
	}
	return json.NewDecoder(res.Body).Decode(into)
}

// sorted returns the keys of maps.
func sorted(all ...map[string]float64) []string {
	keys := map[string]bool{}
	for _, m := range all {
		for k := range m {
			keys[k] = true
		}
	}
	return slices.Sorted(maps.Keys(keys))
}
