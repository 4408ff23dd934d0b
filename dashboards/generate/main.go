// Command generate writes the Grafana boards of admitd as JSON.
//
//	go run . ../boards
//
// It is a module of its own: Grafana's SDK stays out of the daemon's
// dependencies. The boards say what they say here; the JSON is committed, and a
// test fails when the two differ.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// run writes every board into the directory that args name.
func run(args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("want one argument, the directory to write to (%d given)", len(args))
	}
	for _, b := range boards() {
		text, err := render(b)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(args[0], b.file), text, 0o644); err != nil { //nolint:gosec // public
			return err
		}
	}
	return nil
}

// boards lists every board in the order of their links.
func boards() []board {
	return []board{overview(), partition(), ingress(), fleet(), benchmark()}
}

// render builds a board and returns its JSON, after the SDK's own validation.
func render(b board) ([]byte, error) {
	built, err := b.build()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	if err := built.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	text, err := json.MarshalIndent(built, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	text = append(text, '\n')
	// What the SDK writes it must also be able to read, field by field.
	if err := new(dashboard.Dashboard).UnmarshalJSONStrict(text); err != nil {
		return nil, fmt.Errorf("%s: %w", b.file, err)
	}
	return text, nil
}
