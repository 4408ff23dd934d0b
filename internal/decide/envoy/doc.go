// Package envoy answers Envoy's own questions over gRPC, with the limits of a
// gate: the rate limit service v3 ([RateLimitService], with rates and with
// permits that end when the stream is done), external authorization v3, and the
// rate limit quota service v3, which hands shares of a rate to many Envoys that
// then decide by themselves. Beside them stands gRPC health.
//
// The domain of a request names the ingress. Descriptor entries and bucket ids
// with the keys of this package say what the gate must know; the values of all
// others, in their order and joined by "/", are the partition key.
//
// It is the one package that imports go-control-plane and grpc. [New] returns an
// http.Handler, so that the listener, its token and its TLS are those of decide.
package envoy
