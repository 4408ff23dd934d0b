// Package postgresclients tests the PostgreSQL gate with a real server and
// unmodified clients: pgx in its five query modes, database/sql with pgx and with
// lib/pq, psql and pgbench. It is a module of its own, so that the clients stay out
// of the daemon. Without a server on the machine its tests are skipped.
package postgresclients
