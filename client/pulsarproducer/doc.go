// Package pulsarproducer is the producing half of a Pulsar client that
// understands being throttled.
//
// A [Client] is the connections to one service, a [Producer] publishes to one
// topic, and a [Partitioned] spreads over the partitions of one. When a gate says
// ThrottleProducer, the client acknowledges it, keeps further messages of that
// producer back until the time is over, and fails at once those whose deadline
// comes earlier, with a [*ProducerThrottledError] in place of a timeout.
// Asynchronous sends never block.
//
// It is a reference, not a replacement: it neither batches, compresses nor
// reconnects. When its connection is lost, its producers fail, and so do their
// messages without a receipt.
package pulsarproducer
