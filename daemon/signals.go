package daemon

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

// caught are the signals that arrived.
type caught struct{ hup, term chan os.Signal }

// catchSignals takes the signals that the daemon answers. It takes SIGHUP for
// good: while the daemon drains it must not end the process.
func catchSignals() caught {
	c := caught{hup: make(chan os.Signal, 1), term: make(chan os.Signal, 2)}
	signal.Notify(c.hup, syscall.SIGHUP)
	signal.Notify(c.term, syscall.SIGTERM, syscall.SIGINT)
	return c
}

// signals reloads on SIGHUP and returns on SIGTERM or SIGINT; the next of these
// then ends the process at once.
func (d *Daemon) signals(ctx context.Context, got caught) error {
	for {
		select {
		case <-ctx.Done():
			signal.Stop(got.term)
			return nil
		case <-got.hup:
			_, _ = sd.SdNotify(false, sd.SdNotifyReloading)
			_ = d.Reload(ctx) // logged and counted where it happens
			_, _ = sd.SdNotify(false, sd.SdNotifyReady)
		case sig := <-got.term:
			d.log.Info("signal received, stopping", slog.String("signal", sig.String()))
			_, _ = sd.SdNotify(false, sd.SdNotifyStopping)
			go d.stopAtOnce(got.term)
			return nil
		}
	}
}

// stopAtOnce waits for a further signal.
func (d *Daemon) stopAtOnce(term <-chan os.Signal) {
	<-term
	d.log.Warn("second signal, stopping at once")
	if d.kill != nil {
		d.kill()
	}
}
