package envoy_test

import (
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/internal/decide/envoy"
	"github.com/admitd/admitd/limiter"
)

// Whatever is wanted, the shares never pass the rate, leave little of it unused,
// and nobody has none.
func TestSharesConserve(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.001, 1e6).Draw(t, "rate")
		wants := rapid.SliceOfN(rapid.OneOf(rapid.Just(-1.0), rapid.Just(0.0), rapid.Float64Range(0, 1e6)), 1, 50).Draw(t, "wants")
		sum := 0.0
		for _, s := range envoy.Split(rate, wants) {
			if !(s > 0) {
				t.Fatalf("Split(%v, %v) gives somebody %v", rate, wants, s)
			}
			sum += s
		}
		if sum > rate*(1+1e-9) || sum < rate*0.96 {
			t.Fatalf("Split(%v, %v) adds up to %v", rate, wants, sum)
		}
	})
}

// Who wants less than an even share gets what it wants; the others share the rest.
func TestSharesFollowDemand(t *testing.T) {
	for name, tc := range map[string]struct {
		wants, shares []float64
	}{
		"alone":            {[]float64{10}, []float64{1000}},
		"new ones":         {[]float64{-1, -1}, []float64{500, 500}},
		"one is busy":      {[]float64{100, 5000}, []float64{135, 865}},
		"all are busy":     {[]float64{5000, 5000, 5000, 5000}, []float64{250, 250, 250, 250}},
		"one is idle":      {[]float64{0, 5000}, []float64{25, 975}},
		"new beside busy":  {[]float64{5000, -1}, []float64{500, 500}},
		"all want little":  {[]float64{100, 200}, []float64{445, 555}},
		"scale is no help": {[]float64{1e9, 1e9}, []float64{500, 500}},
	} {
		for i, got := range envoy.Split(1000, tc.wants) {
			if math.Abs(got-tc.shares[i]) > 0.04*tc.shares[i] {
				t.Errorf("%s: share %d of %v = %.1f; want %v within a step", name, i, tc.wants, got, tc.shares[i])
			}
		}
	}
}

// proxy is an Envoy that reports one bucket.
type proxy struct {
	t      *testing.T
	stream grpc.BidiStreamingClient[quotav3.RateLimitQuotaUsageReports, quotav3.RateLimitQuotaResponse]
}

func newProxy(t *testing.T, c *grpc.ClientConn) proxy {
	t.Helper()
	stream, err := quotav3.NewRateLimitQuotaServiceClient(c).StreamRateLimitQuotas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return proxy{t, stream}
}

// report tells the use of the bucket; elapsed 0 = it is new.
func (p proxy) report(domain string, asked uint64, elapsed time.Duration) {
	p.t.Helper()
	err := p.stream.Send(&quotav3.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: []*quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage{{
		BucketId:    &quotav3.BucketId{Bucket: map[string]string{"tenant": "acme"}},
		TimeElapsed: durationpb.New(elapsed), NumRequestsAllowed: asked,
	}}})
	if err != nil {
		p.t.Fatal(err)
	}
}

// assigned reads what the proxy is told next of its bucket.
func (p proxy) assigned() *typev3.RateLimitStrategy {
	p.t.Helper()
	res, err := p.stream.Recv()
	if err != nil {
		p.t.Fatal(err)
	}
	if len(res.GetBucketAction()) != 1 || res.GetBucketAction()[0].GetBucketId().GetBucket()["tenant"] != "acme" {
		p.t.Fatalf("told %v; want the one bucket", res)
	}
	a := res.GetBucketAction()[0].GetQuotaAssignmentAction()
	if a.GetAssignmentTimeToLive().AsDuration() < time.Second {
		p.t.Errorf("for %v; want longer than reports are apart", a.GetAssignmentTimeToLive().AsDuration())
	}
	return a.GetRateLimitStrategy()
}

// rate reads a share, in requests per second.
func (p proxy) rate() float64 {
	p.t.Helper()
	b := p.assigned().GetTokenBucket()
	if b == nil {
		p.t.Fatal("told no token bucket")
	}
	return float64(b.GetTokensPerFill().GetValue()) / b.GetFillInterval().AsDuration().Seconds()
}

// near reports whether a share is what it should be, within a step.
func near(got, want float64) bool { return got <= want*1.001 && got >= want*0.94 }

// Envoys share a rate: a new one gets an even part at once and the others hear of
// it, then demand decides; who leaves leaves its share to the others.
func TestQuotaShares(t *testing.T) {
	c := dial(t, newDaemon(rates(1000, 1)), decide.Options{})
	a := newProxy(t, c)
	a.report("orders", 0, 0)
	if got := a.rate(); !near(got, 1000) {
		t.Errorf("alone: %v; want all of the 1000", got)
	}
	b := newProxy(t, c)
	b.report("orders", 0, 0)
	if got, other := b.rate(), a.rate(); !near(got, 500) || !near(other, 500) {
		t.Errorf("two new ones: %v and %v; want 500 each, and the first told at once", got, other)
	}
	b.report("", 100, time.Second) // the domain was told
	if got := b.rate(); got > 500 {
		t.Errorf("beside a new one: %v; want no more than an even share", got)
	}
	_ = a.assigned() // it may have more now
	a.report("", 9000, time.Second)
	if got := a.rate(); !near(got, 865) {
		t.Errorf("the busy one: %v; want 865", got)
	}
	if got := b.rate(); !near(got, 135) {
		t.Errorf("the other: %v; want what it wants, and a bit: 135", got)
	}
	if err := b.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if got := a.rate(); !near(got, 1000) {
		t.Errorf("alone again: %v; want all of the 1000", got)
	}
}

// Where there is no rate there is nothing to share, and an unknown domain is an
// error.
func TestQuotaWithoutRate(t *testing.T) {
	c := dial(t, newDaemon(&limiter.Policy{}), decide.Options{})
	p := newProxy(t, c)
	p.report("orders", 0, 0)
	if got := p.assigned().GetBlanketRule(); got != typev3.RateLimitStrategy_ALLOW_ALL || p.t.Failed() {
		t.Errorf("told %v; want everything to pass", got)
	}
	lost := newProxy(t, c)
	lost.report("nobody", 0, 0)
	if _, err := lost.stream.Recv(); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown domain: %v; want NotFound", err)
	}
}

// A rate below one a second is one token every so often.
func TestQuotaOfSlowRates(t *testing.T) {
	c := dial(t, newDaemon(rates(0.1, 1)), decide.Options{})
	p := newProxy(t, c)
	p.report("orders", 0, 0)
	b := p.assigned().GetTokenBucket()
	got := float64(b.GetTokensPerFill().GetValue()) / b.GetFillInterval().AsDuration().Seconds()
	if b.GetMaxTokens() != 1 || !near(got, 0.1) {
		t.Errorf("told %v; want nearly a token every ten seconds, and one at a time", b)
	}
}

// A rate is worded in whole seconds: Envoy 1.40 took 49 tokens in 0.99 s for no
// limit at all. What is worded is never more than the rate, and little less.
func TestFillsInWholeSeconds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.001, 1e6).Draw(t, "rate")
		tokens, every := envoy.Filling(rate)
		if got := float64(tokens) / every.Seconds(); every%time.Second != 0 || every < time.Second || got > rate*(1+1e-9) || got < rate*0.95 {
			t.Fatalf("Filling(%v) = %d in %v; want whole seconds, and nearly the rate", rate, tokens, every)
		}
	})
}

// An Envoy that reports nothing for a while wants nothing: the others have its
// share. They once waited for as long as it stayed connected.
func TestSilentEnvoysLetGo(t *testing.T) {
	l := envoy.NewLedger(newDaemon(rates(1000, 1)))
	now := time.Now()
	l.Report(now, "a", "orders", 0, 0)
	l.Report(now, "b", "orders", 0, 0)
	var share float64
	for range 3 {
		now = now.Add(5 * time.Second)
		l.Report(now, "a", "orders", 50_000, 5*time.Second)
		share, _ = l.Report(now, "b", "orders", 50_000, 5*time.Second)
	}
	if !near(share, 500) {
		t.Fatalf("both busy: %v; want 500", share)
	}
	for range 24 { // two minutes of a alone
		now = now.Add(5 * time.Second)
		share, _ = l.Report(now, "a", "orders", 50_000, 5*time.Second)
	}
	if share < 850 {
		t.Errorf("a after two minutes alone: %v; want nearly all", share)
	}
	if share, _ = l.Report(now, "b", "orders", 50_000, 5*time.Second); !near(share, 500) {
		t.Errorf("b when it is back: %v; want 500 at once", share)
	}
}

// A bucket that nobody used for ten minutes is abandoned, so that Envoys with many
// tenants do not fill the memory.
func TestUnusedBucketsAreAbandoned(t *testing.T) {
	l := envoy.NewLedger(newDaemon(rates(1000, 1)))
	now := time.Now()
	l.Report(now, "a", "orders", 1, 0)
	for at := 5 * time.Second; at <= 10*time.Minute; at += 5 * time.Second {
		if _, abandoned := l.Report(now.Add(at), "a", "orders", 0, 5*time.Second); abandoned {
			t.Fatalf("abandoned after %v; want ten minutes", at)
		}
	}
	if _, abandoned := l.Report(now.Add(10*time.Minute+5*time.Second), "a", "orders", 0, 5*time.Second); !abandoned || l.Quotas() != 0 {
		t.Errorf("abandoned: %v, quotas %d; want it forgotten", abandoned, l.Quotas())
	}
}

// What an Envoy says nothing more of was never abandoned: once it had had 10,000
// tenants, a new one never got an assignment.
func TestSilentBucketsMakeRoom(t *testing.T) {
	const most = 10_000
	l := envoy.NewLedger(newDaemon(rates(1000, 1)))
	now := time.Now()
	for i := range most {
		l.ReportOf(now, "a", "orders", strconv.Itoa(i), 1, 0)
	}
	if shares, _ := l.ReportOf(now, "a", "orders", "one too many", 1, 0); len(shares) != 0 {
		t.Errorf("the 10,001st is told %v; want nothing, as there is no room", shares)
	}
	now = now.Add(10*time.Minute + time.Second)
	shares, abandoned := l.ReportOf(now, "a", "orders", "0", 50, 5*time.Second)
	if len(abandoned) != most || abandoned["0"] || abandoned["1"] == false || !near(shares["0"], 1000) {
		t.Errorf("%d buckets are told of, the reported one abandoned: %v, with %v; want the others abandoned", len(abandoned), abandoned["0"], shares["0"])
	}
	if shares, _ := l.ReportOf(now, "a", "orders", "new", 50, 0); !(shares["new"] > 400) {
		t.Errorf("a new one is told %v; want a share", shares)
	}
}

// Partitions without a rate of their own share that of the ingress, and each was
// given all of it. One that is blocked is told that nothing passes, and takes
// nothing from the others; when its rate changes it moves.
func TestQuotasByPartition(t *testing.T) {
	policy := func(own float64, blocked bool) *limiter.Policy {
		p := rates(1000, 1)
		p.Named = []limiter.PartitionPolicy{{Name: "vip", Match: "vip", Rate: limiter.Rate{PerSecond: own, BurstSeconds: 1}, Blocked: blocked}}
		return p
	}
	d := newDaemon(policy(0, false))
	l := envoy.NewLedger(d)
	now := time.Now()
	told := map[string]float64{}
	report := func(tenant string) {
		now = now.Add(5 * time.Second)
		shares, _ := l.ReportOf(now, "e", "orders", tenant, 50_000, 5*time.Second)
		maps.Copy(told, shares)
	}
	for _, step := range []struct {
		policy *limiter.Policy
		want   map[string]float64
		quotas int
	}{
		{policy(0, false), map[string]float64{"a": 500, "vip": 500}, 1},
		{policy(300, false), map[string]float64{"a": 1000, "vip": 300}, 2},
		{policy(300, true), map[string]float64{"a": 1000, "vip": -1}, 2},
		{policy(0, true), map[string]float64{"a": 970, "vip": -1}, 1},
		{policy(0, false), map[string]float64{"a": 500, "vip": 500}, 1},
	} {
		d.gate.Apply(step.policy)
		for range 3 {
			report("a")
			report("vip")
		}
		report("a")
		for tenant, want := range step.want {
			if got := told[tenant]; got != want && !near(got, want) {
				t.Errorf("own %v, blocked %v: %s has %v; want %v", step.policy.Named[0].Rate.PerSecond, step.policy.Named[0].Blocked, tenant, got, want)
			}
		}
		if n := l.Quotas(); n != step.quotas {
			t.Errorf("%d rates are shared; want %d", n, step.quotas)
		}
	}
}

// An Envoy whose bucket had one request says so once, and then nothing: its half
// of the rate went to nobody for as long as it stayed connected.
func TestBucketsOfOneRequestLetGo(t *testing.T) {
	l := envoy.NewLedger(newDaemon(rates(1000, 1)))
	now := time.Now()
	l.Report(now, "once", "orders", 1, 0)
	var share float64
	for range 24 {
		now = now.Add(5 * time.Second)
		share, _ = l.Report(now, "busy", "orders", 50_000, 5*time.Second)
	}
	if share < 850 {
		t.Errorf("beside a bucket that had one request two minutes ago: %v of 1000; want nearly all", share)
	}
}

// A report that was being read while its stream ended brought the bucket back
// after the Envoy had left, and nobody ever took it out again.
func TestNobodyReportsAfterLeaving(t *testing.T) {
	l := envoy.NewLedger(newDaemon(rates(1000, 1)))
	now := time.Now()
	l.Report(now, "a", "orders", 1, 0)
	l.Leave(now, "a")
	l.Report(now, "a", "orders", 1, 5*time.Second)
	if n := l.Quotas(); n != 0 {
		t.Errorf("%d quotas are shared by those who have left; want none", n)
	}
}
