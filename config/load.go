package config

import (
	"fmt"
	"io"
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

// Load reads and parses the file at path; env is as [os.Environ] returns it.
// The error is [Problems] when the content is at fault, else it wraps what
// kept the file from being read.
func Load(path string, env []string) (*Config, error) {
	b, err := Read(path)
	if err != nil {
		return nil, err
	}
	return Parse(path, b, env)
}

// Read returns the content of the file at path. It reads no more than a byte
// beyond 1 MiB, which is what [Parse] accepts at most.
func Read(path string) ([]byte, error) {
	f, err := os.Open(path) //nolint:gosec // the operator names the file
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config: reading %s: %w", path, err)
	}
	return b, nil
}

// Parse turns content into a configuration: YAML, over it the ADMITD_
// variables of env, under both the defaults. name is what problems call the
// content. An error is always of type [Problems] and lists every fault.
func Parse(name string, content []byte, env []string) (*Config, error) {
	return parse(name, content, env)
}

// parse is [Parse] with further checks of what the layers say together.
func parse(name string, content []byte, env []string, checks ...func(validator, *Config)) (*Config, error) {
	r := newReport(name)
	k, err := layers(r, content, env)
	if err != nil {
		return nil, err
	}
	return assemble(r, k.Raw(), checks...)
}

// assemble completes, decodes and validates what the layers say together.
func assemble(r *report, merged map[string]any, checks ...func(validator, *Config)) (*Config, error) {
	whole := koanf.New(envDelim)
	if err := whole.Load(values(shaper{r}.object("", reflect.TypeFor[Config](), merged)), nil); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := &Config{}
	if err := whole.UnmarshalWithConf("", c, koanf.UnmarshalConf{DecoderConfig: &mapstructure.DecoderConfig{
		Result: c, TagName: "yaml", ErrorUnused: true,
		DecodeHook: mapstructure.TextUnmarshallerHookFunc(),
	}}); err != nil {
		// The shape was checked already: this is our own fault, and still the
		// operator must be told rather than run half a configuration.
		r.atLine(0, "", "cannot be decoded: "+strings.ReplaceAll(err.Error(), "\n", " "))
		return nil, r.problems()
	}
	complete(c)
	validate(r, c)
	for _, check := range checks {
		check(validator{r}, c)
	}
	if err := r.problems(); err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in the defaults that depend on other keys.
func complete(c *Config) {
	for i := range c.Ingresses {
		in := &c.Ingresses[i]
		in.Partitions.Default.Limit.complete(in.Objective)
		named := in.Partitions.Named
		for j := range named {
			named[j].Limit.complete(in.Objective)
			if named[j].Match == "" {
				named[j].Match = named[j].Name
			}
		}
	}
}

// layers puts file and environment together. It fails only when the
// text as a whole cannot be read: whatever else is wrong is in the report and
// replaced, so that validation can go on to find the rest.
func layers(r *report, content []byte, vars []string) (*koanf.Koanf, error) {
	k := koanf.New(envDelim)
	doc := &document{report: r, anchors: map[string]ast.Node{}}
	if err := k.Load(rawbytes.Provider(content), doc); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if doc.unreadable {
		return nil, r.problems()
	}
	byName := map[string]override{}
	for _, o := range r.distinct(r.overrides(vars)) {
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
	if err := k.Load(layer, nil, koanf.WithMergeFunc(r.overlay)); err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	return k, nil
}

// values is a [koanf.Provider] of values that exist already.
type values map[string]any

// ReadBytes implements [koanf.Provider]; there are no bytes.
func (values) ReadBytes() ([]byte, error) {
	return nil, fmt.Errorf("config: %w", os.ErrInvalid)
}

// Read implements [koanf.Provider].
func (v values) Read() (map[string]any, error) { return v, nil }
