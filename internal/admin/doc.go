// Package admin is the reception: the HTTP port through which operators and
// programs look at a running admitd and change it.
//
// A [Server] answers health, metrics, status and the live page to anyone who
// can reach it, and everything that changes something only to those who may: a
// guard at the door, a window for those who look, a desk for those who change
// something. It knows the daemon through the small interfaces in [Options]. Once a
// second it takes a reading, which its book keeps, and from which one frame is
// worded for all who look.
package admin
