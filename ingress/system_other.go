//go:build !linux

package ingress

import "net"

// CanSeePeerGone is whether [PeerGone] can tell.
const CanSeePeerGone = false

// PeerGone cannot tell here without reading.
func PeerGone(uintptr) bool { return false }

// lastDescriptor returns the number from which on descriptors are not for clients.
func lastDescriptor() uint64 { return ^uint64(0) }

// descriptor returns 0: what it tells of the others is not known here.
func descriptor(net.Conn) uint64 { return 0 }
