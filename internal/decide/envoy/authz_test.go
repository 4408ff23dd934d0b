package envoy_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/decide/envoy"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// check asks for authorization of a request.
func check(ctx context.Context, c *grpc.ClientConn, ext map[string]string) (*authv3.CheckResponse, error) {
	return authv3.NewAuthorizationClient(c).Check(ctx, &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
		ContextExtensions: ext,
		Source: &authv3.AttributeContext_Peer{Address: &corev3.Address{Address: &corev3.Address_SocketAddress{SocketAddress: &corev3.SocketAddress{
			Address: "2001:db8::1", PortSpecifier: &corev3.SocketAddress_PortValue{PortValue: 4711},
		}}}},
		Request: &authv3.AttributeContext_Request{Http: &authv3.AttributeContext_HttpRequest{
			Method: "POST", Path: "/orders/7?x=1", Host: "shop.example", Headers: map[string]string{":path": "/orders/7?x=1", "x-tenant": "acme"},
		}},
	}})
}

// The gate sees the request that Envoy has, and a refusal is what a client of the
// gate would get.
func TestAuthorization(t *testing.T) {
	d := newDaemon(rates(0.001, 1000))
	c := dial(t, d, decide.Options{})
	ext := map[string]string{"ingress": "orders", "operation": "dear"}
	res, err := check(t.Context(), c, ext)
	if err != nil || codes.Code(res.GetStatus().GetCode()) != codes.OK || res.GetOkResponse() == nil {
		t.Fatalf("first = %v, %v; want OK", res, err)
	}
	ask := <-d.last
	if r := ask.HTTP; r.Method != http.MethodPost || r.URL.Path != "/orders/7" || r.Host != "shop.example" || r.Header.Get("X-Tenant") != "acme" || r.RemoteAddr != "[2001:db8::1]:4711" {
		t.Errorf("asked about %+v; want the request as Envoy has it", r)
	}
	if ask.Operation != "dear" || ask.MaxWait != limiter.NoWait {
		t.Errorf("asked %+v; want the operation, and no waiting without a deadline", ask)
	}
	res, err = check(t.Context(), c, ext)
	denied := res.GetDeniedResponse()
	if err != nil || codes.Code(res.GetStatus().GetCode()) != codes.PermissionDenied || denied.GetStatus().GetCode() != 429 {
		t.Fatalf("second = %v, %v; want denied with 429", res, err)
	}
	if doc, err := labels.Parse([]byte(denied.GetBody())); err != nil || doc.Reason != labels.RequestRate {
		t.Errorf("body %q (%v); want the document", denied.GetBody(), err)
	}
	headers := map[string]string{}
	for _, h := range denied.GetHeaders() {
		headers[h.GetHeader().GetKey()] = h.GetHeader().GetValue()
	}
	if headers["Retry-After"] == "" || headers["Content-Type"] != "application/problem+json" {
		t.Errorf("headers %v; want those of every refusal", headers)
	}
	if _, err := check(t.Context(), c, map[string]string{"ingress": "nobody"}); status.Code(err) != codes.NotFound {
		t.Errorf("unknown ingress: %v; want NotFound", err)
	}
}

// What a gate answers with 400 is denied with 400, and headers that the Envoy tells
// one by one are told apart.
func TestAuthorizationOfMalformedRequests(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	c := dial(t, d, decide.Options{})
	ask := func(h *authv3.AttributeContext_HttpRequest) *authv3.CheckResponse {
		t.Helper()
		res, err := authv3.NewAuthorizationClient(c).Check(t.Context(), &authv3.CheckRequest{Attributes: &authv3.AttributeContext{
			ContextExtensions: map[string]string{"ingress": "orders"}, Request: &authv3.AttributeContext_Request{Http: h},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	if res := ask(&authv3.AttributeContext_HttpRequest{Method: "POST", Path: "/export/%zz"}); res.GetDeniedResponse().GetStatus().GetCode() != 400 {
		t.Errorf("a target that is no URI: %v; want denied with 400", res)
	}
	ask(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", Headers: map[string]string{"x-tenant": "a,b"}})
	if a := <-d.last; !a.Joined || a.HTTP.Header.Get("X-Tenant") != "a,b" {
		t.Errorf("asked %+v; want what was joined told", a)
	}
	ask(&authv3.AttributeContext_HttpRequest{Method: "GET", Path: "/", HeaderMap: &corev3.HeaderMap{Headers: []*corev3.HeaderValue{
		{Key: ":path", RawValue: []byte("/")}, {Key: "x-tenant", RawValue: []byte("a")}, {Key: "x-tenant", Value: "b"},
	}}})
	if a := <-d.last; a.Joined || len(a.HTTP.Header) != 1 || len(a.HTTP.Header["X-Tenant"]) != 2 {
		t.Errorf("asked %+v; want both", a.HTTP.Header)
	}
}

// A permit may travel to the backend, which returns it; a client cannot send one.
func TestAuthorizationHolds(t *testing.T) {
	d := newDaemon(one())
	c := dial(t, d, decide.Options{})
	res, err := check(t.Context(), c, map[string]string{"ingress": "orders"})
	if err != nil || len(res.GetOkResponse().GetHeadersToRemove()) != 1 || res.GetOkResponse().GetHeadersToRemove()[0] != decide.HeaderPermit {
		t.Errorf("without hold = %v, %v; want the client's header removed", res, err)
	}
	res, err = check(t.Context(), c, map[string]string{"ingress": "orders", "hold": "1m"})
	if err != nil || len(res.GetOkResponse().GetHeaders()) != 1 || res.GetOkResponse().GetHeaders()[0].GetHeader().GetKey() != decide.HeaderPermit {
		t.Fatalf("hold = %v, %v; want a permit for the backend", res, err)
	}
	if n := d.gate.Status().InFlight; n != 1 {
		t.Errorf("in flight = %d; want 1", n)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if res, err := check(ctx, c, map[string]string{"ingress": "orders"}); err != nil || res.GetDeniedResponse().GetStatus().GetCode() != 503 {
		t.Errorf("beside it = %v, %v; want denied with 503", res, err)
	}
	if _, err := check(t.Context(), c, map[string]string{"ingress": "orders", "hold": "soon"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("hold: soon = %v; want InvalidArgument", err)
	}
}

// watchesAreBounded checks that a connection has four streams of Watch, for which nobody
// needs a token: 20,000 took 600 MiB. One that ends makes room for another.
func watchesAreBounded(t *testing.T) {
	t.Helper()
	c := healthv1.NewHealthClient(dial(t, newDaemon(one()), decide.Options{Token: "secret"}))
	watch := func(ctx context.Context) error {
		stream, err := c.Watch(ctx, &healthv1.HealthCheckRequest{})
		if err != nil {
			return err
		}
		_, err = stream.Recv()
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 4 {
		if err := watch(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := watch(t.Context()); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a fifth stream of Watch = %v; want ResourceExhausted", err)
	}
	cancel()
	for err := watch(t.Context()); err != nil; err = watch(t.Context()) {
		if status.Code(err) != codes.ResourceExhausted {
			t.Fatal(err)
		}
	}
	if begun := envoy.Watches(2000); begun != 1024 {
		t.Errorf("%d streams of Watch on as many connections, want 1,024", begun)
	}
}

// Health is for everybody and says whether the gate leaves.
func TestHealth(t *testing.T) {
	for ready, want := range map[bool]healthv1.HealthCheckResponse_ServingStatus{true: healthv1.HealthCheckResponse_SERVING, false: healthv1.HealthCheckResponse_NOT_SERVING} {
		c := dial(t, newDaemon(one()), decide.Options{Token: "secret", Ready: func() bool { return ready }})
		res, err := healthv1.NewHealthClient(c).Check(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil || res.GetStatus() != want {
			t.Errorf("ready %v: %v, %v; want %v", ready, res, err, want)
		}
		watch, err := healthv1.NewHealthClient(c).Watch(t.Context(), &healthv1.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if res, err := watch.Recv(); err != nil || res.GetStatus() != want {
			t.Errorf("watched, ready %v: %v, %v; want %v", ready, res, err, want)
		}
	}
	watchesAreBounded(t)
}
