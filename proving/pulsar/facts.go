// Package pulsar holds what the Go cells of this ground share: how a fact is told,
// and the broker's admin interface.
package pulsar

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Facts tells facts on standard output.
type Facts struct{ failed bool }

// Tell tells one. What was seen is for the one who has to find out why not.
func (f *Facts) Tell(what string, holds bool, seen ...any) {
	if holds {
		fmt.Println("ok", what)
		return
	}
	f.failed = true
	fmt.Println("not ok", what, "- saw", fmt.Sprint(seen...))
}

// TellBrisk tells one that is about speed. It is not judged when it does not hold
// on a machine that has far more to do than it has processors for.
func (f *Facts) TellBrisk(what string, holds bool, seen ...any) {
	if load := busy(); !holds && load != "" {
		fmt.Println("# not judged at a load of", load+":", what, "- saw", fmt.Sprint(seen...))
		return
	}
	f.Tell(what, holds, seen...)
}

// busy returns the load of the machine, "" when it is less than 3 for each processor.
func busy() string {
	b, err := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(b), " ")
	load, err2 := strconv.ParseFloat(first, 64)
	if err != nil || err2 != nil || load < 3*float64(runtime.NumCPU()) {
		return ""
	}
	return first
}

// Must ends the cell when err is not nil: what comes needs what it names.
func (f *Facts) Must(what string, err error) {
	if err != nil {
		f.Tell(what, false, err)
		os.Exit(1)
	}
}

// End ends the cell.
func (f *Facts) End() {
	if f.failed {
		os.Exit(1)
	}
}

// Admin sends a request to the broker's admin interface, with a body unless it is nil.
func Admin(ctx context.Context, method, path string, body any) error {
	return admin(ctx, method, path, body, nil)
}

// Ask reads what is at a path of the broker's admin interface into a value.
func Ask(ctx context.Context, path string, into any) error {
	return admin(ctx, http.MethodGet, path, nil, into)
}

func admin(ctx context.Context, method, path string, body, into any) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	if body == nil {
		b = nil
	}
	req, err := http.NewRequestWithContext(ctx, method, os.Getenv("BROKER_ADMIN")+"/admin/v2/"+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	switch {
	case res.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s", method, path, res.Status)
	case into != nil:
		return json.NewDecoder(res.Body).Decode(into)
	default:
		return nil
	}
}
