// Package pulsargate is the gate in front of a Pulsar broker.
//
// A [Server] passes the binary protocol through. It reads the few commands that
// say who produces what, and forwards everything else as it came, commands that
// it does not know included. A message is a SEND frame; its checksum covers
// nothing that the gate changes.
//
// Every message pays the rates of its topic, of the topic's groups and of the
// gate, then takes a permit of the limiter until its receipt comes. A producer
// that is over a limit is slowed down by itself: its frames are held in a bounded
// queue while the other producers of the connection go on. Clients that announced
// it are told with a ThrottleProducer, and are expected to acknowledge it. Only
// when a bound is reached, or the acknowledgement does not come, the gate stops
// reading from the connection, as brokers do.
//
// Nothing is ever refused half-way: there is no SEND_ERROR, because clients answer
// it by dropping the whole connection. What can be refused is a new producer.
//
// Lookups are answered so that clients stay on the gate, and lead only to brokers
// on the allow-list.
package pulsargate
