package top

import (
	"context"
	"os"
	"time"

	"github.com/admitd/admitd/status"
)

// Looks of a line and what begins and ends a screen, for tests.
const (
	Bold, Red, Yellow = bold, red, yellow
	Enter, Leave      = enterScreen, leaveScreen
)

// Rates are rates per second, for tests.
type Rates = rates

// RatesOf returns rates, for tests.
func RatesOf(received, admitted, rejected float64, reason string) Rates {
	return rates{received: received, admitted: admitted, rejected: rejected, reason: reason}
}

// SplitKeys is splitKeys, for tests.
func SplitKeys(s string) []string { return splitKeys(s) }

// Since is since, for tests.
func Since(c, old *status.Counts, seconds float64) Rates { return since(c, old, seconds) }

// Now returns the reading that is shown, for tests.
func (v *View) Now() *status.Document { return v.now }

// RowNames lists the rows in their order, for tests.
func (v *View) RowNames() (names []string) {
	for _, r := range v.rows() {
		names = append(names, r.Name)
	}
	return names
}

// Screen draws on a terminal, for tests.
func Screen(ctx context.Context, file *os.File, o Options, v *View) error {
	r, err := newStatusReader(o)
	if err != nil {
		return err
	}
	return screen(ctx, terminal{file, file}, r, v, time.Second)
}
