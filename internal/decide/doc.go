// Package decide is the hatch for those who ask before their own work: callers
// that cannot be proxied, and proxies that people already run. A [Decider] asks the
// gates and holds the permits that it granted; over it stand the decision API
// (POST and DELETE /v1/admissions, one by one or as a batch), GET /v1/authorize
// for proxies that ask over HTTP, and, in internal/decide/envoy, Envoy's services over
// gRPC. A [Server] answers all of them on a listener and with a token of its
// own: whoever may ask for permits must not be able to switch the gate off.
//
// Every permit that is held has an end: it is returned, or it expires. The
// package decides nothing itself and knows no configuration.
package decide
