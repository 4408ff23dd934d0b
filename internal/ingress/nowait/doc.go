// Package nowait reads and writes sockets that never block, on the thread that is
// running and without telling the scheduler, for use inside the functions of a
// [syscall.RawConn].
//
// Go prepares for each system call to take long: after 20 µs its monitor hands the
// processor on, to a thread that has to be woken for it. Calls on sockets do not
// wait, and yet take that long now and then, since a write on a loopback interface
// runs the receiver's half too. So much went into monitor and threads that it was a
// tenth of what a request of HTTP costs. The price: a collection of garbage waits
// for the end of such a call.
package nowait
