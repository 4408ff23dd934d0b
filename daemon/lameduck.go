package daemon

import (
	"context"
	"log/slog"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"
)

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

// leave notes that the end is coming: clients and balancers are told to go
// elsewhere, and are still served.
func (fs *fronts) leave() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.leavingSoon = true
}

// isLeaving reports whether the end is coming or has begun.
func (fs *fronts) isLeaving() bool {
	fs.mu.RLock()
	defer fs.mu.RUnlock()
	return fs.leavingSoon || fs.draining
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
		if d.face.Health().Listening {
			_, _ = sd.SdNotify(false, sd.SdNotifyWatchdog)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}
