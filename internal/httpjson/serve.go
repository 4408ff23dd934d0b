package httpjson

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// shutdownTimeout is how long answers may take to finish at the end.
const shutdownTimeout = 5 * time.Second

// Serve answers on ln, over TLS where the server has its configuration, until ctx is
// done; then it calls stopping, lets answers finish for up to 5 s, and returns nil.
// It closes ln.
func Serve(ctx context.Context, srv *http.Server, ln net.Listener, stopping func()) error {
	served := make(chan error, 1)
	go func() {
		if srv.TLSConfig != nil {
			served <- srv.ServeTLS(ln, "", "")
			return
		}
		served <- srv.Serve(ln)
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	stopping()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := srv.Shutdown(bounded); err != nil {
		_ = srv.Close() // what did not finish in time is cut
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// IsLoopback reports whether only this machine can reach the address.
func IsLoopback(a net.Addr) bool {
	switch a := a.(type) {
	case *net.TCPAddr:
		return a.IP.IsLoopback()
	case *net.UnixAddr:
		return true
	}
	return false
}
