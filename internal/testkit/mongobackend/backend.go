package mongobackend

import (
	"context"
	"fmt"
	"log/slog"
	"net"

	"github.com/FerretDB/FerretDB/ferretdb"
)

// Backend is a running database.
type Backend struct {
	addr string
	stop context.CancelFunc
	done chan struct{}
}

// Start runs a database that keeps its files in dir and listens on addr,
// host:port; an empty addr is a free port on the loopback.
func Start(ctx context.Context, dir, addr string) (*Backend, error) {
	if addr == "" {
		var err error
		if addr, err = freePort(ctx); err != nil {
			return nil, err
		}
	}
	db, err := ferretdb.New(&ferretdb.Config{
		Listener:  ferretdb.ListenerConfig{TCP: addr},
		Handler:   "sqlite",
		SQLiteURL: "file:" + dir + "/",
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, fmt.Errorf("mongobackend: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &Backend{addr: addr, stop: cancel, done: make(chan struct{})}
	go b.run(ctx, db)
	return b, nil
}

// run serves until ctx is done.
func (b *Backend) run(ctx context.Context, db *ferretdb.FerretDB) {
	defer close(b.done)
	_ = db.Run(ctx) // returns nil, always
}

// Addr returns host:port.
func (b *Backend) Addr() string { return b.addr }

// Stop ends the database and waits until it has ended. Connections are closed.
func (b *Backend) Stop() {
	b.stop()
	<-b.done
}

// freePort finds a port that was free a moment ago.
func freePort(ctx context.Context) (string, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
