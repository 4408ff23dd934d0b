package lab

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/admitd/admitd/internal/lab/scenario"
)

// shipped holds the scenarios that come with the program.
//
//go:embed scenarios/*.yaml
var shipped embed.FS

// Shipped returns the scenarios that come with the program, by name.
func Shipped() ([]*scenario.Scenario, error) { return read(shipped, "scenarios") }

// read parses the scenarios of a directory, with the ceilings that are known.
func read(files embed.FS, dir string) ([]*scenario.Scenario, error) {
	names, err := fs.Glob(files, dir+"/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("lab: shipped scenarios: %w", err)
	}
	ceilings, err := scenario.ReadCeilings(computed)
	if err != nil {
		return nil, err
	}
	var list []*scenario.Scenario
	for _, name := range names {
		b, err := files.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("lab: shipped scenarios: %w", err)
		}
		s, err := scenario.Parse(b)
		if err != nil {
			return nil, err
		}
		if want := strings.TrimSuffix(path.Base(name), ".yaml"); s.Name != want {
			return nil, fmt.Errorf("lab: %s is named %s", name, s.Name)
		}
		ceilings.Know(s)
		list = append(list, s)
	}
	return list, nil
}

//go:embed ceilings.json
var computed []byte

//go:embed worst/*.yaml
var worst embed.FS

// Worst returns the scenarios that a search has found for the default to do badly
// in. They are not of the suite: what plays everything leaves them out.
func Worst() ([]*scenario.Scenario, error) { return read(worst, "worst") }
