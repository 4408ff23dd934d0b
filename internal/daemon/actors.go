package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// actor is a part of the daemon that runs until it is told to stop.
type actor struct {
	name string
	run  func(ctx context.Context) error
}

// runActors runs all until the first returns, or until ctx is done, and then
// stops the others in the order in which they stand: the next is told to stop
// when the one before it has returned. It returns the first error.
func runActors(ctx context.Context, actors []actor) error {
	done := make(chan int, len(actors))
	errs := make([]error, len(actors))
	ended := make([]chan struct{}, len(actors))
	stops := make([]context.CancelFunc, len(actors))
	var wg sync.WaitGroup
	for i, a := range actors {
		actx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		stops[i], ended[i] = cancel, make(chan struct{})
		wg.Go(func() {
			defer func() { close(ended[i]); done <- i }()
			errs[i] = a.run(actx)
		})
	}
	select {
	case <-ctx.Done():
	case <-done:
	}
	for i, stop := range stops {
		stop()
		<-ended[i]
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}

// caught are the signals that arrived.
type caughtSignals struct{ hup, term chan os.Signal }

// catchSignals takes the signals that the daemon answers. It takes SIGHUP for
// good: while the daemon drains it must not end the process.
func catchSignals() caughtSignals {
	c := caughtSignals{hup: make(chan os.Signal, 1), term: make(chan os.Signal, 2)}
	signal.Notify(c.hup, syscall.SIGHUP)
	signal.Notify(c.term, syscall.SIGTERM, syscall.SIGINT)
	return c
}

// heed stops the daemon on SIGTERM or SIGINT, also while it starts or reloads; the
// next of these then ends the process at once. It goes on until ctx is done.
func (d *Daemon) heed(ctx context.Context, term chan os.Signal, stop func()) {
	defer signal.Stop(term)
	select {
	case <-ctx.Done():
		return
	case sig := <-term:
		d.log.Info("signal received, stopping", slog.String("signal", sig.String()))
	}
	d.fronts.leave()
	_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
	stop()
	select {
	case <-ctx.Done():
		return
	case <-term:
		d.log.Warn("second signal, stopping at once")
	}
	if d.kill != nil {
		d.kill()
	}
}

// reloads reloads on SIGHUP.
func (d *Daemon) reloads(ctx context.Context, hup <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-hup:
			_, _ = sd.SdNotify(false, sd.SdNotifyReloading)
			_, _ = d.settings.Reload(ctx, "SIGHUP") // logged and counted where it happens
			_, _ = sd.SdNotify(false, sd.SdNotifyReady)
		}
	}
}

// lameDuck goes on serving for the drain delay once a signal has told the daemon
// to stop, while /readyz answers 503: balancers notice in that time, and nobody
// finds a closed door. It stands for no delay when something failed.
func (d *Daemon) lameDuck(ctx context.Context) error {
	<-ctx.Done()
	delay := time.Duration(d.settings.running().DrainDelay)
	if delay <= 0 || !d.fronts.isLeaving() {
		return nil
	}
	d.log.Info("serving on until balancers have noticed", slog.Duration("delay", delay))
	<-time.After(delay)
	return nil
}

// watchdog tells systemd that the daemon lives, as often as the unit's
// WatchdogSec asks, until ctx is done. A beat reads what every decision reads: a
// daemon that stands still at a lock is restarted.
func (d *Daemon) watchdog(ctx context.Context) error {
	every, _ := sd.SdWatchdogEnabled(false) // one that cannot be read is none
	if every <= 0 {
		<-ctx.Done()
		return nil
	}
	ticker := time.NewTicker(every / 2)
	defer ticker.Stop()
	for {
		if d.view.Health().Listening {
			_, _ = sd.SdNotify(false, sd.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
