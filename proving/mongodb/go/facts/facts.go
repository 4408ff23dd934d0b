// Package facts is how a Go cell tells what it has seen.
package facts

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"time"
)

var failed atomic.Bool //nolint:gochecknoglobals // the cell as a whole fails

// Fact tells one fact; what was seen is for the one who has to find out why not.
func Fact(what string, holds bool, seen ...any) {
	if holds {
		fmt.Println("ok " + what)
		return
	}
	failed.Store(true)
	fmt.Printf("not ok %s - saw %.500v\n", what, fmt.Sprint(seen...))
}

// Brisk tells one that is about speed, which is not judged on a busy machine.
func Brisk(what string, holds bool, seen ...any) {
	var load float64
	if b, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(b), &load)
	}
	if !holds && load > 3*float64(runtime.NumCPU()) {
		fmt.Printf("# not judged at a load of %v: %s - saw %v\n", load, what, fmt.Sprint(seen...))
		return
	}
	Fact(what, holds, seen...)
}

// Rush has eight ask forty times each, ten times a second: about half as much again
// as the rate of the database that is asked. It returns how many were served and how
// many refused, and what else went wrong.
func Rush(ask func() error, refused func(error) bool) (served, rejected int, other error) {
	const askers, times = 8, 40
	results := make(chan error, askers*times)
	for range askers {
		go func() {
			for range times {
				results <- ask()
				time.Sleep(100 * time.Millisecond)
			}
		}()
	}
	for range askers * times {
		switch err := <-results; {
		case err == nil:
			served++
		case refused(err):
			rejected++
		default:
			other = err
		}
	}
	return served, rejected, other
}

// Must ends the cell when what has to be done cannot be.
func Must(err error) {
	if err != nil {
		Fact("the cell comes to its end", false, err)
		End()
	}
}

// End ends the process.
func End() {
	if failed.Load() {
		os.Exit(1)
	}
	os.Exit(0)
}

// Lacks reports whether the server cannot do it: WITHOUT lists such.
func Lacks(feature string) bool { return strings.Contains(os.Getenv("WITHOUT"), feature) }
