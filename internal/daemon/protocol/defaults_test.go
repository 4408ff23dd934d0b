package protocol_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/daemon/protocol"
	"github.com/admitd/admitd/internal/ingress"
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
			asDocumented(t, reflect.ValueOf(own))
			if n := len(toldDefaults(t, reflect.TypeOf(own))); n < 3 {
				t.Errorf("the comments of %T tell %d defaults", own, n)
			}
			if given, own, err = protocol.ServerOptionsOf(in); err != nil {
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

// asDocumented compares the fields of a struct, and of those of the same package
// inside it, with the default that their comments tell: "0 = 10 s".
func asDocumented(t *testing.T, own reflect.Value) {
	t.Helper()
	told := toldDefaults(t, own.Type())
	for i := range own.NumField() {
		f := own.Type().Field(i)
		if f.Type.Kind() == reflect.Struct && f.Type.PkgPath() == own.Type().PkgPath() {
			asDocumented(t, own.Field(i))
		}
		want, ok := told[f.Name]
		if !ok {
			continue
		}
		if got := own.Field(i); got.CanInt() && float64(got.Int()) != want || got.CanFloat() && got.Float() != want {
			t.Errorf("the comment of %s.%s tells %v for 0, and it is %v", own.Type(), f.Name, want, got)
		}
	}
}

// toldDefault is what a comment says that 0 stands for.
var toldDefault = regexp.MustCompile(`\b0 =\s([0-9][0-9,]*)(?:\s(ms|s|KiB|MiB|GiB)\b)?`)

// toldDefaults reads the defaults that the comments of a struct's fields tell in
// numbers, in nanoseconds and bytes where they have a unit.
func toldDefaults(t *testing.T, of reflect.Type) map[string]float64 {
	t.Helper()
	units := map[string]float64{"": 1, "ms": 1e6, "s": 1e9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
	files, err := filepath.Glob(filepath.Join("../../..", strings.TrimPrefix(of.PkgPath(), "github.com/admitd/admitd/"), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	told := map[string]float64{}
	for _, name := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || spec.Name.Name != of.Name() {
				return true
			}
			for _, f := range spec.Type.(*ast.StructType).Fields.List {
				for _, m := range toldDefault.FindAllStringSubmatch(f.Doc.Text()+f.Comment.Text(), 1) {
					n, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
					if err != nil {
						t.Fatal(err)
					}
					told[f.Names[0].Name] = n * units[m[2]]
				}
			}
			return false
		})
	}
	return told
}
