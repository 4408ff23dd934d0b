// Package pulsarwire reads and writes the frames and the few commands of the
// Pulsar binary protocol that a gate, a producer and a small broker need.
//
// A frame is [u32 total][u32 commandSize][command][rest]; total counts all that
// follows it. The command is a protobuf message; the rest, present with SEND and
// MESSAGE only, carries its own checksum and is never touched here, so that a
// frame forwarded as it came stays valid.
//
// Decoding works on the wire form: there is no generated code, so a program may
// link this package and the upstream client, whose generated code refuses to be
// registered twice (ADR 9). Decoded values alias the bytes they came from.
//
// Two commands and one feature flag are not part of the upstream protocol: see
// [TypeThrottleProducer]. The package imports nothing of ours and keeps no state.
package pulsarwire
