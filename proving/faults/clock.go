package main

import (
	"context"
	"fmt"
	"time"
)

// The clock of a running process cannot be stepped for it alone, so the gate bends
// its own readings, from its bentFrom on for bentFor.
const (
	bentFrom = 4 * time.Second
	bentFor  = 2 * time.Second
	bentRate = 50 // requests a second, of the ingress that is asked meanwhile
)

// bent starts the gate with a clock that goes wrong.
func bent(fault string) func(*world) error {
	return func(w *world) error {
		w.args = []string{"--clock-fault", fmt.Sprintf("%s@%v+%v", fault, bentFrom, bentFor)}
		w.failing = fmt.Sprintf("requests: { rate: %d }", bentRate)
		return nil
	}
}

// bending waits until the clock is good again, and sees that its rate still flows
// to the ingress: what was spent or refilled at a wrong time is not missing for
// an hour, nor there for an hour.
func bending(ctx context.Context, w *world) error {
	if late := time.Since(w.began); late > bentFrom {
		return fmt.Errorf("the clock was wrong before anything was measured: %v", late)
	}
	time.Sleep(time.Until(w.began.Add(bentFrom + bentFor + 200*time.Millisecond)))
	const span = 2 * time.Second
	before, err := w.metric(ctx, admitted)
	if err != nil {
		return err
	}
	time.Sleep(span)
	after, err := w.metric(ctx, admitted)
	if err != nil {
		return err
	}
	if n := after - before; n < bentRate/2 || n > 4*bentRate*span.Seconds() {
		return fmt.Errorf("%v requests were admitted in %v after the clock was good again, at a rate of %d a second", n, span, bentRate)
	}
	return nil
}

// admitted is the metric of the ingress that fails.
const admitted = `admitd_requests_admitted_total{ingress="failing"`
