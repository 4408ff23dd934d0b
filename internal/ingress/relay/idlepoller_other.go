//go:build !linux

package relay

import "syscall"

// canSleep is whether sides of sessions can sleep here.
const canSleep = false

// sleepers is nobody.
type idlePoller struct{}

func (*idlePoller) add(syscall.RawConn, *side) uint64 { return 0 }
func (*idlePoller) remove(uint64, syscall.RawConn)    {}
func (*idlePoller) tidy()                             {}
