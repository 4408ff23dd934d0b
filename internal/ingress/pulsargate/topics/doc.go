// Package topics says what may be published to the topics of a broker: what a
// topic is called, whatever a client calls it, and what its messages pay.
//
// A [Table] keeps the rates of each topic, of groups of them and of all together.
// A producer joins a [Topic]; each message makes a bill by the topic's present
// [Rule] and pays all of it or nothing. It knows no connection, and holds nobody
// up: a [Meter] that refuses says for how long.
package topics
