//go:build !linux

package ingress

import "errors"

// CanSeePeerGone is whether [PeerGone] can tell.
const CanSeePeerGone = false

// PeerGone cannot tell here without reading.
func PeerGone(uintptr) bool { return false }

// Receive is not made for here.
func Receive(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }
