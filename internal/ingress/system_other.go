//go:build !linux

package ingress

// CanSeePeerGone is whether [PeerGone] can tell.
const CanSeePeerGone = false

// PeerGone cannot tell here without reading.
func PeerGone(uintptr) bool { return false }
