// Package client is the other half of the gate: it calls a service that may
// refuse, and does the right thing when it does.
//
// Three types carry it. A [Policy] is plain data and decides, without waiting
// and without a clock, whether a failed attempt is tried again and after how
// long; three profiles come ready made: [Seed], [Driver] and [SlowDown]. A
// [Budget] bounds how many retries a client may send in a long overload. A
// [Client] binds both to real time: [Client.Do] runs any operation,
// [Client.Transport] plugs into an http.Client, [RunBatch] runs dependent items
// and resumes where the server stopped.
//
// Every operation, read, write or generic command, may be retried when the
// server refused it before any work ran, which it says with two error labels
// (package labels). A failure with only one of the labels is not retried.
//
// The package selects no servers; an operation does so itself, and finds the
// servers to avoid in [Attempt.Deprioritized].
package client
