// Package modelpulsar is a small broker that speaks as much of the Pulsar binary
// protocol as a producer uses: CONNECT, PARTITIONED_METADATA, LOOKUP, PRODUCER,
// SEND, CLOSE_PRODUCER and PING. Its capacity is known: a number of workers, each
// busy for a fixed service time per message.
//
// It stores nothing and serves no consumers. It verifies the checksum of every
// message, and closes the connection on a SEND for a producer that it does not
// know, as real brokers do.
package modelpulsar
