package strict_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config/strict"
)

// shop is a configuration with a key of every kind, which exists nowhere else:
// strict knows no key of the product.
type shop struct {
	Name    string                   `yaml:"name" required:"true"`
	Port    int                      `yaml:"port" default:"80" min:"1" max:"65535"`
	Share   float64                  `yaml:"share" default:"0.5" min:"0" below:"1"`
	Open    bool                     `yaml:"open" default:"true"`
	Wait    strict.Duration          `yaml:"wait" default:"10s" min:"1ms" max:"1h"`
	Room    strict.Size              `yaml:"room" default:"1KiB" max:"1MiB"`
	Key     strict.Secret            `yaml:"key"`
	Status  strict.Status            `yaml:"status" default:"auto" enum:"auto 429 503"`
	Pace    float64                  `yaml:"pace" default:"3" zero:"unlimited" min:"0" max:"9"`
	Bytes   strict.Size              `yaml:"bytes" default:"1KiB" zero:"unlimited" max:"1GiB"`
	Tills   strict.Count             `yaml:"tills" default:"1" min:"1" max:"9"`
	Words   []string                 `yaml:"words"`
	Nets    []strict.Prefix          `yaml:"nets" single:"true"`
	Prices  map[string]float64       `yaml:"prices" min:"0"`
	Secrets map[string]strict.Secret `yaml:"secrets"`
	Till    till                     `yaml:"till"`
	Line    line                     `yaml:"line"`
	Shelves []shelf                  `yaml:"shelves"`
	Change  strict.Overlay           `yaml:"change"`
	Cert    string                   `yaml:"cert" default:"" reads:"file"`
}

// till has a key that decides which others belong.
type till struct {
	Kind  string `yaml:"kind" default:"cash" enum:"cash card" selects:"true"`
	Coins int    `yaml:"coins" default:"10" per:"card=0" min:"0" for:"cash"`
	Fee   int    `yaml:"fee" default:"3" min:"0" for:"card"`
}

// line may be written as a word.
type line struct {
	Auto  bool `yaml:"auto" word:"auto"`
	Depth int  `yaml:"depth" default:"4" min:"0"`
}

// shelf is an element of a list.
type shelf struct {
	Name  string `yaml:"name" required:"true"`
	Slots int    `yaml:"slots" default:"7" min:"1"`
	Cert  string `yaml:"cert" default:"" reads:"file"`
}

// read reads content with variables over it, as package config does.
func read(content string, env ...string) (*shop, error) {
	r := strict.NewReport("shop.yaml", strict.Options{Secrets: []string{"secrets"}})
	merged, err := r.Layers(reflect.TypeFor[shop](), []byte(content), env)
	if err != nil {
		return nil, err
	}
	s := &shop{}
	if err := r.Decode(merged, s); err != nil {
		return nil, err
	}
	return s, r.Err()
}

// said returns the problems of content, less the name of the file.
func said(t *testing.T, content string, env ...string) []string {
	t.Helper()
	_, err := read(content, env...)
	var problems strict.Problems
	if err == nil {
		return nil
	}
	if !errors.As(err, &problems) {
		t.Fatalf("the error is %T (%v); want Problems", err, err)
	}
	var list []string
	for _, p := range problems {
		list = append(list, strings.TrimPrefix(p.String(), "shop.yaml:"))
	}
	return list
}

// mustRead reads what has no problems.
func mustRead(t *testing.T, content string, env ...string) *shop {
	t.Helper()
	s, err := read(content, env...)
	if err != nil {
		t.Fatalf("%s\n%v", content, err)
	}
	return s
}
