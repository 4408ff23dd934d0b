package strict

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// Files reports the files below value that cannot be read: strings in fields
// with the tag reads:"file".
func (r *Report) Files(path string, value reflect.Value) {
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
				at = Join(path, name)
			}
			if field.Tag.Get("reads") == "file" {
				name := value.Field(i).String()
				if problem := unreadable(name); problem != "" {
					r.Relate(problem, name, at)
				}
				continue
			}
			r.Files(at, value.Field(i))
		}
	case reflect.Slice:
		for i := range value.Len() {
			r.Files(Element(path, i), value.Index(i))
		}
	}
}

// unreadable says why a file cannot be read, "" when it can. An empty name is none.
func unreadable(name string) string {
	if name == "" {
		return ""
	}
	f, err := os.Open(name) //nolint:gosec // the operator names the file
	if err == nil {
		_, err = f.Read(make([]byte, 1))
		_ = f.Close() // it was only read
	}
	if cause, ok := errors.AsType[*fs.PathError](err); ok {
		return "cannot be read: " + cause.Err.Error()
	}
	if errors.Is(err, io.EOF) {
		return "is an empty file"
	}
	return ""
}
