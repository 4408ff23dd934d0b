// Package admin is the reception: the HTTP port through which operators and
// programs look at a running admitd and change it.
//
// A [Server] answers health, metrics, status and the live page to anyone who
// can reach it, and everything that changes something only to those who may. It
// knows the daemon through the small interfaces in [Options] and holds one
// thing itself: the permits of the decision API, until they are returned or
// expire.
package admin
