// Package descriptors keeps account of a process's file descriptors, so that
// clients do not get the last ones: gates need them to reach their backends, and
// operators the admin port. An [Account] promises descriptors before they are
// taken, since a client of a wire gate takes a second one only when it speaks.
package descriptors

import (
	"math"
	"net"
	"sync/atomic"
	"syscall"
)

const (
	// mostKept is how many of the process's descriptors are kept from clients at
	// most; of few it is a quarter.
	mostKept = 1024
	// mostGuests is how many clients that are turned away may be spoken to at once;
	// where few descriptors are kept it is a quarter of them.
	mostGuests = 64
)

// Account is what of a process's descriptors is promised to clients. All doors of
// a process share one. It is safe for concurrent use.
type Account struct {
	limit    func() uint64
	promised atomic.Int64 // to clients
	guests   atomic.Int64 // clients that are turned away with a word
}

// New returns an account of as many descriptors as limit says; nil = as the
// process may have, and where that is not known no bound. limit is asked for every
// client, so that an operator may raise it meanwhile.
func New(limit func() uint64) *Account {
	if limit == nil {
		limit = ofProcess
	}
	return &Account{limit: limit}
}

// shares returns how many descriptors clients may have, and how many are kept from
// them.
func (a *Account) shares() (usable, kept int64) {
	n := int64(min(a.limit(), math.MaxInt64))
	kept = min(n/4, mostKept)
	return n - kept, kept
}

// Usable returns how many descriptors clients may have.
func (a *Account) Usable() int64 {
	n, _ := a.shares()
	return n
}

// Promise reports whether there are n descriptors for c, the one that it has among
// them. [Account.Release] gives them back.
func (a *Account) Promise(c net.Conn, n int64) bool {
	usable, _ := a.shares()
	if a.promised.Add(n) <= usable && number(c) < usable {
		return true
	}
	a.promised.Add(-n)
	return false
}

// Promised returns how many descriptors are promised.
func (a *Account) Promised() int64 { return a.promised.Load() }

// Release gives n promised descriptors back.
func (a *Account) Release(n int64) { a.promised.Add(-n) }

// Receive reports whether c, which is turned away, may stay to hear why: not with
// one of the last descriptors, nor beside many others. [Account.Dismiss] must
// follow then.
func (a *Account) Receive(c net.Conn) bool {
	usable, kept := a.shares()
	return number(c) < usable && within(&a.guests, min(mostGuests, kept/4))
}

// Dismiss ends a stay.
func (a *Account) Dismiss() { a.guests.Add(-1) }

// number returns the number of c's descriptor, 0 when it has none. The system
// hands out the lowest that is free, so that a high one means that nearly all are
// in use, by whomever.
func number(c net.Conn) (n int64) {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return 0
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) { n = int64(fd) }) // it is closed: it holds none
	return n
}
