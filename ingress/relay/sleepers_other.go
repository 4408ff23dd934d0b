//go:build !linux

package relay

import "syscall"

// canSleep is whether sides of sessions can sleep here.
const canSleep = false

// sleepers is nobody.
type sleepers struct{}

func (*sleepers) add(syscall.RawConn, *side) uint64 { return 0 }
func (*sleepers) remove(uint64, syscall.RawConn)    {}
func (*sleepers) tidy()                             {}
