// Package tracing exports one span per HTTP request to an OpenTelemetry
// collector: how long the decision took, what it was, for which partition and
// why.
//
// A [Tracer] continues the trace that a request belongs to (W3C Trace Context)
// and passes it on in the request's headers; a [Span] follows the request to its
// end. Spans are exported in the background over OTLP/HTTP. When the collector
// cannot keep up they are dropped: no request ever waits for one.
package tracing
