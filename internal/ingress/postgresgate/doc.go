// Package postgresgate admits PostgreSQL transactions. It is a [relay.Protocol]:
// the relay moves the messages, this package knows what they mean.
//
// What is admitted is a unit of work that begins while the server is idle: a
// simple query, or what an extended protocol client binds up to its Sync. It
// holds a permit until the server says ReadyForQuery. A session that is idle
// inside a transaction holds none, since nobody works for it then; its next
// statement takes one by force, since it may hold locks. A refusal is an
// ErrorResponse of severity ERROR and a ReadyForQuery in its place, after which
// the connection is as good as before: never FATAL, never inside a transaction.
//
// What is never refused: statements inside a transaction, those that end or
// prepare one, settings, replication, superusers and configured exemptions.
package postgresgate
