// Package mongobackend starts a real database that speaks the MongoDB wire
// protocol, FerretDB embedded over SQLite, and holds the tests in which
// unmodified MongoDB drivers talk to it through the gate.
//
// It is a module of its own, so that neither the database nor a second driver
// generation is in the dependencies of the daemon. Run its tests with
//
//	cd internal/testkit/mongobackend && go test ./...
package mongobackend
