package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// LoadWithFiles is [Load] which also opens every file that the configuration
// names for reading, such as a certificate. One that cannot be read is a problem
// among the others, at the line that names it.
func LoadWithFiles(path string, env []string) (*Config, error) {
	b, err := Read(path)
	if err != nil {
		return nil, err
	}
	return parse(path, b, env, func(v validator, c *Config) { v.files("", reflect.ValueOf(c).Elem()) })
}

// files reports the files below value that cannot be read: strings in fields
// with the tag reads:"file".
func (v validator) files(path string, value reflect.Value) {
	switch value.Kind() { //nolint:exhaustive // configurations are made of structs and lists
	case reflect.Struct:
		for i := range value.NumField() {
			field := value.Type().Field(i)
			name, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")
			if !field.IsExported() || name == "-" {
				continue
			}
			at := path
			if options != "inline" {
				at = join(path, name)
			}
			if field.Tag.Get("reads") == "file" {
				v.readable(at, value.Field(i).String())
				continue
			}
			v.files(at, value.Field(i))
		}
	case reflect.Slice:
		for i := range value.Len() {
			v.files(element(path, i), value.Index(i))
		}
	}
}

// readable reports a file that cannot be read. An empty name is none.
func (v validator) readable(path, name string) {
	if name == "" {
		return
	}
	f, err := os.Open(name) //nolint:gosec // the operator names the file
	if err == nil {
		_, err = f.Read(make([]byte, 1))
		_ = f.Close() // it was only read
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		v.relate("cannot be read: "+cause.Err.Error(), name, path)
	} else if errors.Is(err, io.EOF) {
		v.relate("is an empty file", name, path)
	}
}
