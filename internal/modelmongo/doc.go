// Package modelmongo is a model of a MongoDB server: it speaks enough of the
// wire protocol for drivers to connect and run commands, and has a capacity
// that is known exactly, a number of workers and a service time.
//
// [Server] is the backend, [Client] a small client that obeys error 462 the
// way drivers do. Neither keeps data.
package modelmongo
