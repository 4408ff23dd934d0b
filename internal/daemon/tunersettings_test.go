package daemon_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/tuner"
)

// numbersOf lists the keys of a section that may be numbers, those of its sections
// behind a dot.
func numbersOf(section reflect.Type, prefix string) (keys []string) {
	for f := range section.Fields() {
		name := prefix + f.Tag.Get("yaml")
		switch f.Type.Kind() { //nolint:exhaustive // the others are no numbers
		case reflect.Struct:
			keys = append(keys, numbersOf(f.Type, name+".")...)
		case reflect.Int, reflect.Int64, reflect.Float64:
			keys = append(keys, name)
		}
	}
	return keys
}

// What the configuration lets a policy adjust the tuner can move, and the other way
// round. It could not move weight, maxShare and reserved: that was told without the
// line of the file. Both know how far a setting can be lowered: a min of 0 ended
// without any bound.
func TestConfigurationAndTunerAgreeOnSettings(t *testing.T) {
	settings := []string{"a.partitions.total"}
	for section, from := range map[string]reflect.Type{
		"requests": reflect.TypeFor[config.Requests](), "connections": reflect.TypeFor[config.Connections](),
	} {
		settings = append(settings, numbersOf(from, "a."+section+".")...)
	}
	settings = append(settings, numbersOf(reflect.TypeFor[config.Partition](), "a.partitions.*.")...)
	if len(settings) < 25 {
		t.Fatalf("only %d settings were found: %q", len(settings), settings)
	}
	const text = `
ingresses:
  - name: a
    protocol: postgres
    listen: 127.0.0.1:1
    backend: db:5432
    partitions:
      by: [user]
      named:
        - { name: fixed, limit: { algorithm: fixed }, queue: { depth: 1 } }
        - { name: aimd, limit: { algorithm: aimd } }
        - { name: vegas, limit: { algorithm: vegas } }
        - { name: gradient2, limit: { algorithm: gradient2 } }
tuner:
  signals: [{ name: s, source: host, metric: cpu }]
  policies: [{ name: p, signal: s, adjust: %q, above: 0.9, below: 0.5, min: %v, max: 9, step: 0.5 }]
`
	for _, adjust := range settings {
		_, err := config.Parse("f", fmt.Appendf(nil, text, adjust, 1), nil)
		refused := err != nil && strings.Contains(err.Error(), "tuner.policies[0].adjust")
		if err != nil && !refused {
			t.Fatalf("Parse = %v", err)
		}
		setting, err := tuner.ParseSetting(adjust)
		if immovable := errors.Is(err, tuner.ErrSetting); refused != immovable {
			t.Errorf("adjust: %s: the configuration refuses it: %v; the tuner cannot move it: %v", adjust, refused, immovable)
		}
		if refused {
			continue
		}
		least := setting.Least()
		if _, err := config.Parse("f", fmt.Appendf(nil, text, adjust, least), nil); err != nil {
			t.Errorf("adjust: %s with a min of %v, the tuner's least: %v", adjust, least, err)
		}
		if _, err := config.Parse("f", fmt.Appendf(nil, text, adjust, least*0.99), nil); least > 0 && err == nil {
			t.Errorf("adjust: %s with a min of %v is taken; want the tuner's least, %v", adjust, least*0.99, least)
		}
	}
}
