package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/admitd/admitd/config"
)

// listen opens the ingress's address, or takes over the socket that systemd
// opened under the ingress's name, or the one that a front listens on already.
func (d *Daemon) listen(ctx context.Context, in *config.Ingress) (net.Listener, error) {
	if inherited := d.inherited[in.Name]; len(inherited) > 0 {
		d.inherited[in.Name] = inherited[1:]
		return inherited[0], nil
	}
	if held := d.holder(in); held != nil {
		if ln, err := duplicate(held); err == nil {
			return ln, nil
		}
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", in.Listen)
	if err != nil {
		return nil, fmt.Errorf("ingress %s: listen: %w", in.Name, err)
	}
	return ln, nil
}

// holder returns the listener that runs on the ingress's address, nil when
// there is none. It may be another ingress's, which was renamed or has another
// address from now on. Port 0 means a port of one's own.
func (d *Daemon) holder(in *config.Ingress) net.Listener {
	_, port, _ := net.SplitHostPort(in.Listen) // the configuration was validated
	d.mu.RLock()
	defer d.mu.RUnlock()
	if d.cfg == nil {
		return nil
	}
	for i := range d.cfg.Ingresses {
		old := &d.cfg.Ingresses[i]
		if old.Listen == in.Listen && (port != "0" || old.Name == in.Name) {
			return d.fronts[old.Name].ln
		}
	}
	return nil
}

// duplicate returns a second listener on the same socket, so that an ingress
// can be replaced without a moment in which nobody listens.
func duplicate(ln net.Listener) (net.Listener, error) {
	tcp, ok := ln.(*net.TCPListener)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	file, err := tcp.File()
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	defer file.Close()
	copied, err := net.FileListener(file)
	if err != nil {
		return nil, fmt.Errorf("listener: %w", err)
	}
	return copied, nil
}

// needsRestart reports whether the change between two forms of an ingress goes
// beyond what a running server can take over.
func needsRestart(p *Protocol, old, next *config.Ingress) bool {
	return structure(p, *old) != structure(p, *next)
}

// structure renders what of an ingress cannot change while its server runs. It
// compares as text, since a configuration that was rendered and read again has
// empty lists where there were none.
func structure(p *Protocol, in config.Ingress) string {
	in.Mode, in.Requests.Rate, in.Requests.BurstSeconds, in.Requests.QueueDepth = "", 0, 0, 0
	in.Connections = config.Connections{}
	in.Partitions.Max, in.Partitions.Total = 0, 0
	in.Partitions.Default, in.Partitions.Named = config.Partition{}, nil
	if p.InPlace != nil {
		p.InPlace(&in)
	}
	one := config.Config{Ingresses: []config.Ingress{in}}
	b, err := one.Effective()
	if err != nil {
		return err.Error()
	}
	return string(b)
}
