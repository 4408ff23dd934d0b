// Package modelpulsar is a small broker that speaks as much of the Pulsar binary
// protocol as a producer uses: CONNECT, PARTITIONED_METADATA, LOOKUP, PRODUCER,
// SEND, CLOSE_PRODUCER and PING. Its capacity is known: a number of workers, each
// busy for a fixed service time per message.
//
// It stores nothing and serves no consumers. It verifies the checksum of every
// message, closes the connection on a SEND for a producer that it does not know,
// and unloads topics. What it has in common with a real broker is asserted of both,
// by the same program, in the proving range.
package modelpulsar
