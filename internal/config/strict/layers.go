package strict

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/goccy/go-yaml/ast"
	"github.com/knadh/koanf/providers/env/v2"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
)

// Layers puts file and environment together, for structs of type root. It fails only when the
// text as a whole cannot be read: whatever else is wrong is in the report and
// replaced, so that validation can go on to find the rest.
func (r *Report) Layers(root reflect.Type, content []byte, vars []string) (map[string]any, error) {
	k := koanf.New(envDelim)
	doc := &document{Report: r, anchors: map[string]ast.Node{}}
	if err := k.Load(rawbytes.Provider(content), doc); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if doc.unreadable {
		return nil, r.Err()
	}
	variables := environment{r}
	byName := map[string]override{}
	for _, o := range variables.distinct(variables.overrides(root, vars)) {
		byName[o.name], r.envs[o.path] = o, o.name
		// What the file says there counts no longer, nor do its lines.
		maps.DeleteFunc(r.lines, func(path string, _ int) bool { return inside(path, o.path) })
	}
	layer := env.Provider(envDelim, env.Opt{
		Prefix:      envPrefix,
		EnvironFunc: func() []string { return vars },
		TransformFunc: func(name, _ string) (string, any) {
			o := byName[name]
			return strings.Join(o.steps, envDelim), o.value
		},
	})
	if err := k.Load(layer, nil, koanf.WithMergeFunc(variables.overlay)); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return k.Raw(), nil
}

// values is a [koanf.Provider] of values that exist already.
type values map[string]any

// ReadBytes implements [koanf.Provider]; there are no bytes.
func (values) ReadBytes() ([]byte, error) {
	return nil, fmt.Errorf("config: %w", os.ErrInvalid)
}

// Read implements [koanf.Provider].
func (v values) Read() (map[string]any, error) { return v, nil }

// Decode completes the mapping that the layers make together and decodes it into
// the struct that c points to. What does not fit goes into the report; the error is
// of what no layer can be blamed for.
func (r *Report) Decode(merged map[string]any, c any) error {
	whole := koanf.New(envDelim)
	t := reflect.TypeOf(c).Elem()
	if err := whole.Load(values(shaper{r}.object("", t, merged)), nil); err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if err := whole.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: c, TagName: "yaml", ErrorUnused: true,
		DecodeHook: mapstructure.TextUnmarshallerHookFunc(),
	}}); err != nil {
		// The shape was checked already: this is our own fault, and still the
		// operator must be told rather than run half a configuration.
		r.AtLine(0, "", "cannot be decoded: "+strings.ReplaceAll(err.Error(), "\n", " "))
		return r.Err()
	}
	return nil
}
