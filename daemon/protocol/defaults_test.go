package protocol_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/admitd/admitd/daemon/protocol"
	"github.com/admitd/admitd/ingress"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/limiter"
)

// A default stands in the configuration, and where a gate has one of its own for
// who uses it as a library, it is the same: a drain was 10 s for one and 25 s
// for the other.
func TestDefaultsStandOnce(t *testing.T) {
	for _, name := range []string{"http", "mongodb", "postgres", "pulsar"} {
		t.Run(name, func(t *testing.T) {
			backend := "127.0.0.1:1"
			if name == "http" {
				backend = "http://" + backend
			}
			in := configured.Ingress(t, fmt.Sprintf(`ingresses: [{ name: a, protocol: %s, listen: "127.0.0.1:0", backend: %q }]`, name, backend))
			given, own, err := protocol.DefaultsOf(in)
			if err != nil {
				t.Fatal(err)
			}
			sameNumbers(t, "Options", reflect.ValueOf(given), reflect.ValueOf(own))
			if given, own, err = protocol.PorchOf(in); err != nil {
				t.Fatal(err)
			}
			sameNumbers(t, "ingress.Options", reflect.ValueOf(given), reflect.ValueOf(own))
		})
	}
}

// sameNumbers compares the numbers and the choices of two structs, and of those
// inside them.
func sameNumbers(t *testing.T, path string, given, own reflect.Value) {
	t.Helper()
	for i := range given.NumField() {
		f := given.Type().Field(i)
		name := path + "." + f.Name
		switch f.Type.Kind() {
		case reflect.Struct:
			sameNumbers(t, name, given.Field(i), own.Field(i))
		case reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint8, reflect.Float64:
			a, b := given.Field(i).Interface(), own.Field(i).Interface()
			if own.Field(i).IsZero() { // these are looked up where they are used
				switch f.Name {
				case "MaxOpen":
					b = reflect.ValueOf(ingress.DefaultMaxOpen).Convert(f.Type).Interface()
				case "BurstSeconds":
					b = limiter.NewBucket(limiter.Rate{PerSecond: 1}, 0).Burst()
				}
			}
			if a != b {
				t.Errorf("%s is %v by the configuration, %v without it", name, a, b)
			}
		default:
		}
	}
}
