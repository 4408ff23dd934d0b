package daemon_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/testkit/configured"
)

// What the configuration allows, algorithms take: a window of more than 100,000
// samples was within the bounds of its key, and refused in words that name no key.
func TestAlgorithmsTakeTheBounds(t *testing.T) {
	for _, algorithm := range algorithms.Kinds() {
		for _, bound := range []string{"min", "max"} {
			text := fmt.Sprintf("{ algorithm: %s, %s }", algorithm, atBound(reflect.TypeFor[config.Limit](), algorithm, bound))
			in := configured.Ingress(t, "ingresses: [ { name: jobs, partitions: { default: { limit: "+text+" } } } ]")
			if _, err := daemon.Policy(in, nil); err != nil {
				t.Errorf("%s: %v", text, err)
			}
		}
	}
}

// atBound writes every number of a struct of the configuration that is the
// algorithm's, at the bound.
func atBound(of reflect.Type, algorithm, bound string) string {
	var keys []string
	for f := range of.Fields() {
		name, whose := f.Tag.Get("yaml"), f.Tag.Get("for")
		value := f.Tag.Get(bound)
		switch {
		case whose != "" && !slices.Contains(strings.Fields(whose), algorithm):
			continue
		case f.Type.Kind() == reflect.Struct:
			value = "{ " + atBound(f.Type, algorithm, bound) + " }"
		case bound == "max" && f.Tag.Get("below") == "1":
			value = "0.999"
		case name == "alpha" && bound == "max": // it is below beta
			value = "999"
		case name == "beta" && bound == "min":
			value = "2"
		case value == "":
			continue
		}
		keys = append(keys, name+": "+value)
	}
	return strings.Join(keys, ", ")
}
