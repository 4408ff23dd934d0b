// Package daemon is what runs: it turns a configuration into gates and the
// servers before them, puts changes in force while they serve, and drains them at
// the end. [New] builds a [Daemon], [Daemon.Run] runs it. It introduces the rooms
// to each other and holds no policy of its own: what is admitted is decided in
// limiter, what a message means in the protocols' rooms.
package daemon
