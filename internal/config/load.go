package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"

	"github.com/admitd/admitd/internal/config/strict"
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
	b, err := io.ReadAll(io.LimitReader(f, strict.MaxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("config: reading %s: %w", path, err)
	}
	return b, nil
}

// errNoFile is wrapped by [Reread] for what is no file.
var errNoFile = errors.New("is not a file")

// Reread is [Read] for who looks at the file again and must not wait: what has
// become a pipe, whose other end may never write, or a directory, is an error.
func Reread(path string) ([]byte, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("config: %s %w", path, errNoFile)
	}
	return Read(path)
}

// Parse turns content into a configuration: YAML, over it the ADMITD_
// variables of env, under both the defaults. name is what problems call the
// content. An error is always of type [Problems] and lists every fault.
func Parse(name string, content []byte, env []string) (*Config, error) {
	return parse(name, content, env)
}

// parse is [Parse] with further checks of what the layers say together.
func parse(name string, content []byte, env []string, checks ...func(validator, *Config)) (*Config, error) {
	r := reportOn(name)
	merged, err := r.Layers(reflect.TypeFor[Config](), content, env)
	if err != nil {
		return nil, err
	}
	return assemble(r, merged, append(checks, checkAuto)...)
}

// Sources returns what tells where keys of a configuration that holds were
// written, in words: a file and a line, such as admitd.yaml:9, or a variable; "" =
// nowhere, they have their defaults. It is safe for concurrent use.
func Sources(name string, content []byte, env []string) func(path string) string {
	r := reportOn(name)
	if _, err := r.Layers(reflect.TypeFor[Config](), content, env); err != nil {
		return func(string) string { return "" }
	}
	return r.Source
}

// Zeros returns the paths where a configuration that holds says 0 for what is meant by the word
// unlimited: who writes 0 may mean that nothing passes.
func Zeros(name string, content []byte, env []string) []string {
	r := reportOn(name)
	if merged, err := r.Layers(reflect.TypeFor[Config](), content, env); err != nil || r.Decode(merged, &Config{}) != nil {
		return nil
	}
	return r.Zeros()
}

// assemble completes, decodes and validates what the layers say together.
func assemble(r *strict.Report, merged map[string]any, checks ...func(validator, *Config)) (*Config, error) {
	c := &Config{}
	if err := r.Decode(merged, c); err != nil {
		return nil, err
	}
	complete(c, func(path string) bool { return r.Source(path) != "" })
	validate(r, c)
	for _, check := range checks {
		check(validator{r: r}, c)
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// complete fills in the defaults that depend on other keys. written says which keys
// have no default.
func complete(c *Config, written func(path string) bool) {
	for i := range c.Ingresses {
		in := &c.Ingresses[i]
		parts := element("ingresses", i) + ".partitions"
		in.Partitions.Default.Limit.complete(in.Objective)
		in.Partitions.Default.Limit.begin(parts+".default.limit", written)
		named := in.Partitions.Named
		for j := range named {
			named[j].Limit.complete(in.Objective)
			named[j].Limit.begin(element(parts+".named", j)+".limit", written)
			if named[j].Match == "" {
				named[j].Match = named[j].Name
			}
		}
	}
}

// LoadWithFiles is [Load] which also opens every file that the configuration
// names for reading, such as a certificate. One that cannot be read is a problem
// among the others, at the line that names it.
func LoadWithFiles(path string, env []string) (*Config, error) {
	b, err := Read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, b, env, func(v validator, c *Config) { v.r.Files("", reflect.ValueOf(c).Elem()) })
}

// reportOn returns an empty report on content of the given name.
func reportOn(name string) *strict.Report {
	return strict.NewReport(name, strict.Options{Tags: Words, Secrets: []string{"tracing.headers", "tracing.endpoint"}})
}

// Effective renders c as JSON in the order of the documentation, with every
// default filled in, keys that do not belong left out, and secrets redacted.
// JSON is YAML: what is rendered can be parsed again, less the secrets.
func (c *Config) Effective() ([]byte, error) {
	b, err := strict.Render(c, Words, false)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, b, "", "  "); err != nil {
		return nil, fmt.Errorf("config: rendering: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}
