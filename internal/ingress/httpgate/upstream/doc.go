// Package upstream is the HTTP/1.1 client of a gate: a [Pool] of connections to
// one backend, and the [Head] and [Body] of what comes back on them, read as
// strictly as RFC 9112 has it. It writes no request and knows no limits; why it
// is not net/http's is ADR 3.
package upstream
