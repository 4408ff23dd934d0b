// Package selection chooses the server that an operation goes to.
//
// Three types carry it. A [Topology] is a picture of the deployment at one
// moment: immutable, and the rules of who suits which operation are its
// methods. A [View] holds the present picture and wakes whoever waits for the
// next. A [Selector] picks from a View: suitable servers, those within the
// latency window, two of them at random, the less busy of the two.
//
// Pictures come from polling GET /v1/hello. A [Monitor] does so in the
// background for programs with many goroutines; a [Serial] does so in between,
// while selecting, for programs that want no goroutine of their own.
//
// Servers are found; operations are counted. What is not here: sending the
// operation, retrying it, and backing off. Those belong to package client.
package selection
