//go:build !linux

package ingress

import "net"

// peekRaw cannot be done here.
func peekRaw(net.Conn) (b byte, err error, ok bool) { return 0, nil, false } //nolint:revive // as on Linux
