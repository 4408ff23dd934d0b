package envoy_test

import (
	"context"
	"strings"
	"testing"
	"time"

	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

const (
	okay = ratelimitv3.RateLimitResponse_OK
	over = ratelimitv3.RateLimitResponse_OVER_LIMIT
)

// should asks the rate limit service.
func should(t *testing.T, c *grpc.ClientConn, all ...*commonv3.RateLimitDescriptor) *ratelimitv3.RateLimitResponse {
	t.Helper()
	res, err := ratelimitv3.NewRateLimitServiceClient(c).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: "orders", Descriptors: all})
	if err != nil {
		t.Fatalf("ShouldRateLimit: %v", err)
	}
	if len(res.GetStatuses()) != len(all) {
		t.Fatalf("%d statuses for %d descriptors", len(res.GetStatuses()), len(all))
	}
	return res
}

// A refusal says what the gate's own clients are told, in Envoy's form.
func TestRateLimit(t *testing.T) {
	d := newDaemon(rates(0.5, 2)) // one token
	c := dial(t, d, decide.Options{})
	if res := should(t, c, descriptor("tenant", "acme")); res.GetOverallCode() != okay || len(res.GetRawBody()) > 0 || res.GetStatuses()[0].GetCurrentLimit() != nil {
		t.Fatalf("first = %v; want OK, and nothing for the client", res)
	}
	res := should(t, c, descriptor("tenant", "acme"))
	if res.GetOverallCode() != over || res.GetStatuses()[0].GetCode() != over {
		t.Fatalf("second = %v; want over the limit", res)
	}
	doc, err := labels.Parse(res.GetRawBody())
	if err != nil || doc.Reason != labels.RequestRate || doc.Partition != "acme" || doc.RetryAfterMS == 0 {
		t.Errorf("body = %s (%v); want the document", res.GetRawBody(), err)
	}
	headers := map[string]string{}
	for _, h := range res.GetResponseHeadersToAdd() {
		headers[h.GetKey()] = h.GetValue()
	}
	if headers[labels.HeaderReason] != "request_rate" || headers["Retry-After"] == "" || headers["RateLimit-Policy"] != `"requests";q=1;w=2` ||
		headers[decide.HeaderStatus] != "429" || headers["Content-Type"] != "application/problem+json" {
		t.Errorf("headers = %v; want those of every refusal", headers)
	}
	limit := res.GetStatuses()[0].GetCurrentLimit()
	if limit.GetRequestsPerUnit() != 30 || limit.GetUnit() != ratelimitv3.RateLimitResponse_RateLimit_MINUTE {
		t.Errorf("limit = %v; want 30 a minute, since half a request is none", limit)
	}
	if reset := res.GetStatuses()[0].GetDurationUntilReset().AsDuration(); reset != time.Duration(doc.RetryAfterMS)*time.Millisecond {
		t.Errorf("reset after %v; want the %d ms of the document", reset, doc.RetryAfterMS)
	}
}

// The partition is what the descriptor names, or its values joined.
func TestPartitions(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	c := dial(t, d, decide.Options{})
	for want, desc := range map[string]*commonv3.RateLimitDescriptor{
		"acme":        descriptor("tenant", "acme"),
		"acme/search": descriptor("tenant", "acme", "operation", "GET", "path", "search"),
		"gold":        descriptor("remote_address", "10.0.0.1", "partition", "gold"),
		"":            descriptor("request_id", "7", "ttl", "1s"),
	} {
		should(t, c, desc)
		if got := (<-d.last).Partition; got != want {
			t.Errorf("%v is of partition %q; want %q", desc, got, want)
		}
	}
}

// All descriptors are admitted or none: one that is refused costs the others
// nothing. An addend of 0 looks and takes nothing.
func TestAllOrNone(t *testing.T) {
	d := newDaemon(&limiter.Policy{
		Rate:  limiter.Rate{PerSecond: 0.001, BurstSeconds: 10_000}, // ten tokens
		Named: []limiter.PartitionPolicy{{Name: "full", Match: "full", NewLimit: func() limiter.Limit { return constant(1) }}},
	})
	c := dial(t, d, decide.Options{})
	if res := should(t, c, descriptor("partition", "full", "request_id", "1")); res.GetOverallCode() != okay {
		t.Fatalf("first = %v; want OK", res)
	}
	before := d.gate.Status().Bucket.Tokens
	res := should(t, c, hits(4, descriptor("tenant", "a", "request_id", "2")), descriptor("partition", "full", "request_id", "2"), hits(0, descriptor("tenant", "b")))
	if res.GetOverallCode() != over || res.GetStatuses()[0].GetCode() != okay || res.GetStatuses()[1].GetCode() != over || res.GetStatuses()[2].GetCode() != okay {
		t.Errorf("answer = %v; want OK, over, OK", res)
	}
	if after := d.gate.Status().Bucket.Tokens; after < before-0.01 {
		t.Errorf("tokens %v before and %v after; want nothing spent", before, after)
	}
	if n := d.gate.Status().InFlight; n != 1 {
		t.Errorf("in flight = %d; want the first one only", n)
	}
}

// Who looks was told that all is well whatever was left: at an empty bucket, and of a
// tenant that is blocked. It is told what a request would be, and takes nothing.
func TestLooking(t *testing.T) {
	d := newDaemon(&limiter.Policy{
		Rate:  limiter.Rate{PerSecond: 0.001, BurstSeconds: 2_000}, // two tokens
		Named: []limiter.PartitionPolicy{{Name: "bad", Match: "bad", Blocked: true}},
	})
	c := dial(t, d, decide.Options{})
	look := func(pairs ...string) ratelimitv3.RateLimitResponse_Code {
		t.Helper()
		return should(t, c, hits(0, descriptor(pairs...))).GetOverallCode()
	}
	for range 5 {
		if got := look("tenant", "a", "request_id", "1"); got != okay {
			t.Fatalf("with two tokens left: %v; want OK, and nothing taken", got)
		}
	}
	if got := look("tenant", "bad"); got != over {
		t.Errorf("of a blocked tenant: %v; want over", got)
	}
	should(t, c, hits(2, descriptor("tenant", "a")))
	if got := look("tenant", "b"); got != over {
		t.Errorf("at an empty bucket: %v; want over", got)
	}
	if n := d.gate.Status().InFlight; n != 0 {
		t.Errorf("in flight = %d after looking; want none", n)
	}
}

// A permit is held until the stream is done, whose status judges it; one that is
// never ended expires.
func TestPermitsOfStreams(t *testing.T) {
	d := newDaemon(one())
	c := dial(t, d, decide.Options{})
	counts := func() limiter.Counts { return d.gate.Status().Labels[0].Counts }
	for _, tc := range []struct {
		status           string
		dropped, ignored uint64
	}{{"200", 0, 0}, {"404", 0, 0}, {"503", 1, 0}, {"504", 2, 0}, {"0", 2, 1}, {"500", 2, 2}} {
		if res := should(t, c, descriptor("request_id", "a")); res.GetOverallCode() != okay {
			t.Fatalf("before %s: %v; want OK", tc.status, res)
		}
		if res := should(t, c, descriptor("request_id", "b")); res.GetOverallCode() != over {
			t.Fatalf("beside it: %v; want over the limit", res)
		}
		if res := should(t, c, ending(descriptor("request_id", "a", "status", tc.status))); res.GetOverallCode() != okay {
			t.Errorf("end = %v; want OK", res)
		}
		if n := d.gate.Status().InFlight; n != 0 || counts().Dropped != tc.dropped || counts().Ignored != tc.ignored {
			t.Errorf("after %s: in flight %d, dropped %d, ignored %d; want 0, %d, %d", tc.status, n, counts().Dropped, counts().Ignored, tc.dropped, tc.ignored)
		}
	}
	should(t, c, descriptor("request_id", "lost", "ttl", "30ms"))
	for deadline := time.Now().Add(20 * time.Second); d.gate.Status().InFlight > 0 && time.Now().Before(deadline); {
		<-time.After(time.Millisecond)
	}
	if n := counts().Dropped; n != 3 {
		t.Errorf("dropped = %d; want the one that expired as well", n)
	}
	should(t, c, ending(descriptor("request_id", "lost"))) // late: nothing to end
}

// As many permits are held as may be; one more is a refusal, and keeps nothing.
func TestNoPlace(t *testing.T) {
	d := newDaemon(&limiter.Policy{})
	c := dial(t, d, decide.Options{}) // three places
	should(t, c, descriptor("request_id", "1"), descriptor("tenant", "a", "request_id", "1"))
	if res := should(t, c, descriptor("request_id", "2"), descriptor("tenant", "a", "request_id", "2")); res.GetOverallCode() != over {
		t.Errorf("two with one place left = %v; want over the limit", res)
	}
	if n := d.gate.Status().InFlight; n != 2 {
		t.Errorf("in flight = %d; want the first two", n)
	}
}

// Of several permits only some had a place: those that had one were ended, and
// their tokens were gone, as was a permit that a descriptor only looked at.
func TestNoPlaceCostsNothing(t *testing.T) {
	d := newDaemon(&limiter.Policy{Rate: limiter.Rate{PerSecond: 0.001, BurstSeconds: 10_000}}) // ten tokens
	c := dial(t, d, decide.Options{})                                                           // three places
	should(t, c, descriptor("request_id", "1"), descriptor("tenant", "a", "request_id", "1"))
	before := d.gate.Status().Bucket.Tokens
	res := should(t, c, hits(0, descriptor("request_id", "1")), descriptor("request_id", "2"), descriptor("tenant", "a", "request_id", "2"))
	if res.GetOverallCode() != over {
		t.Fatalf("two with one place left = %v; want over the limit", res)
	}
	if after := d.gate.Status().Bucket.Tokens; after < before-0.01 {
		t.Errorf("tokens %v before and %v after; want nothing spent", before, after)
	}
	if n := d.gate.Status().InFlight; n != 2 {
		t.Errorf("in flight = %d; want the two that were there", n)
	}
}

// What cannot be meant is an error, upon which Envoy does as it is configured to.
func TestRefusesInput(t *testing.T) {
	c := dial(t, newDaemon(&limiter.Policy{}), decide.Options{})
	many := make([]*commonv3.RateLimitDescriptor, 33)
	for i := range many {
		many[i] = descriptor("a", "b")
	}
	for name, tc := range map[string]struct {
		domain string
		all    []*commonv3.RateLimitDescriptor
		want   codes.Code
	}{
		"domain":      {"nobody", []*commonv3.RateLimitDescriptor{descriptor("a", "b")}, codes.NotFound},
		"class":       {"orders", []*commonv3.RateLimitDescriptor{descriptor("class", "high")}, codes.InvalidArgument},
		"ttl":         {"orders", []*commonv3.RateLimitDescriptor{descriptor("ttl", "soon")}, codes.InvalidArgument},
		"value":       {"orders", []*commonv3.RateLimitDescriptor{descriptor("a", strings.Repeat("x", 257))}, codes.InvalidArgument},
		"descriptors": {"orders", many, codes.InvalidArgument},
	} {
		_, err := ratelimitv3.NewRateLimitServiceClient(c).ShouldRateLimit(t.Context(), &ratelimitv3.RateLimitRequest{Domain: tc.domain, Descriptors: tc.all})
		if status.Code(err) != tc.want {
			t.Errorf("%s: %v; want %v", name, err, tc.want)
		}
	}
}

// The token is asked here too, as metadata.
func TestToken(t *testing.T) {
	c := dial(t, newDaemon(&limiter.Policy{}), decide.Options{Token: "secret"})
	for bearer, want := range map[string]codes.Code{"": codes.Unauthenticated, "Bearer secret": codes.OK} {
		ctx := metadata.AppendToOutgoingContext(context.Background(), "authorization", bearer)
		_, err := ratelimitv3.NewRateLimitServiceClient(c).ShouldRateLimit(ctx, &ratelimitv3.RateLimitRequest{Domain: "orders", Descriptors: []*commonv3.RateLimitDescriptor{descriptor("a", "b")}})
		if status.Code(err) != want {
			t.Errorf("with %q: %v; want %v", bearer, err, want)
		}
	}
}
