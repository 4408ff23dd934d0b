// Command admitd is an admission-control daemon: it stands in front of a
// database or a queue and decides, request by request, what may pass.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
)

func main() {
	err := run(context.Background(), os.Args[1:], streams{os.Stdout, os.Stderr})
	if err == nil {
		return
	}
	var exit exitError
	if !errors.As(err, &exit) {
		exit = exitError{code: 1, err: err}
	}
	if exit.err != nil {
		fmt.Fprintf(os.Stderr, "admitd: %v\n", exit.err)
	}
	os.Exit(exit.code)
}
