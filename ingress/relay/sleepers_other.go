//go:build !linux

package relay

import "syscall"

// canSleep is whether sides of sessions can sleep here.
const canSleep = false

// sleeper is a side that sleeps.
type sleeper struct {
	s    *Session
	side Side
}

// sleepers is nobody.
type sleepers struct{}

func (*sleepers) add(syscall.RawConn, sleeper) uint64 { return 0 }
func (*sleepers) remove(uint64, syscall.RawConn)      {}
func (*sleepers) tidy()                               {}
