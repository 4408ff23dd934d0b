// Package pulsarclient tests the queue gate with the unmodified Go client of the
// Pulsar protocol. It is a module of its own, so that the client and what it
// needs stay out of the daemon.
//
// There was no real broker to test with: the gate stands in front of modelpulsar.
package pulsarclient
