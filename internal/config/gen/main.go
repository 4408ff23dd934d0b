// Command gen writes internal/config/schema.json and docs/config.md from the source of
// package config: the tags of the structs say what may stand where, their
// comments what it means. Run it with go generate in config.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1) //nolint:forbidigo // this is a main of its own
	}
}

// run generates from the package in dir and writes both files.
func run(dir string) error {
	out, err := generate(dir)
	if err != nil {
		return err
	}
	for name, content := range out {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil { //nolint:gosec // documentation is for all
			return fmt.Errorf("writing: %w", err)
		}
	}
	return nil
}

// generate returns the content of each generated file by its path from dir.
func generate(dir string) (map[string][]byte, error) {
	m, err := read(dir)
	if err != nil {
		return nil, err
	}
	schema, err := m.schema()
	if err != nil {
		return nil, err
	}
	return map[string][]byte{
		"schema.json": schema,
		filepath.Join("..", "..", "docs", "config.md"): m.reference(),
	}, nil
}
