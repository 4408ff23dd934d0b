// Package top shows a running daemon in a terminal. It reads the status document
// from the admin port ([Run]) and draws it ([View]). A view does no input or
// output: [View.Take] gives it a reading, [View.Key] a key, and [View.Lines] is
// what is to be seen.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"
)

// minInterval is the least time between two readings.
const minInterval = 100 * time.Millisecond

// Options say what to show and where to read it.
type Options struct {
	Admin     string        // URL of the admin port; the scheme may be left out
	TokenFile string        // file with the bearer token; "" = none is sent
	Sort      string        // one of [OrderNames]
	Ingress   string        // only this one; "" = all
	Interval  time.Duration // between two readings, at least 100 ms
	Once      bool          // print one snapshot and return
	Rows      int           // printed at most by Once, 0 = all
	Shapes    bool          // print what requests cost by shape, and return
}

// Run shows the daemon on out until the user quits or ctx is done. With Once, or
// when out is not a terminal, it prints one snapshot with the rates of one
// interval.
func Run(ctx context.Context, out io.Writer, o Options) error {
	order, ok := OrderOf(o.Sort)
	if !ok {
		return fmt.Errorf("top: --sort must be one of %s (%s)", strings.Join(OrderNames(), ", "), o.Sort)
	}
	if o.Interval < minInterval {
		return fmt.Errorf("top: --interval must be at least %v (%v)", minInterval, o.Interval)
	}
	r, err := newStatusReader(o)
	if err != nil {
		return err
	}
	if o.Shapes {
		return shapes(ctx, out, r, o.Ingress)
	}
	view := &View{Order: order, Ingress: o.Ingress, Colour: os.Getenv("NO_COLOR") == "", Rows: o.Rows}
	file, isFile := out.(*os.File)
	if o.Once || !isFile || !term.IsTerminal(int(file.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
		view.Colour = false
		return once(ctx, out, r, view, o.Interval)
	}
	return screen(ctx, terminal{in: os.Stdin, out: file}, r, view, o.Interval)
}

// once prints one snapshot, with the rates of one interval.
func once(ctx context.Context, out io.Writer, r *statusReader, v *View, interval time.Duration) error {
	before, err := r.read(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	now, err := r.read(ctx)
	if err != nil {
		return err
	}
	v.Take(before)
	v.Take(now)
	for _, l := range v.Lines(0, 0) {
		if _, err := io.WriteString(out, strings.TrimRight(l.Text, " ")+"\n"); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				return nil // head has seen enough
			}
			return fmt.Errorf("top: %w", err)
		}
	}
	return nil
}
