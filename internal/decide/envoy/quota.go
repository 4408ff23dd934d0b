package envoy

import (
	"context"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	quotav3 "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/admitd/admitd/limiter"
)

// assignmentTTL is for how long an Envoy goes by a share; its reports, which come
// much more often, renew it.
const assignmentTTL = time.Minute

// quotaService is Envoy's rate limit quota service v3: each Envoy holds a share
// of a rate and decides by itself.
type quotaService struct {
	quotav3.UnimplementedRateLimitQuotaServiceServer

	ledger   *quotaTable
	stopping <-chan struct{}
}

// stream is what the service needs of its stream.
type stream = quotav3.RateLimitQuotaService_StreamRateLimitQuotasServer

// StreamRateLimitQuotas implements the service. One goroutine reads reports,
// another tells shares, which change when other Envoys report too.
func (s *quotaService) StreamRateLimitQuotas(st stream) error {
	c := newClient()
	defer func() { s.ledger.leave(time.Now(), c) }()
	failed := make(chan error, 1)
	go func() { failed <- s.listen(st, c) }()
	for {
		select {
		case err := <-failed:
			return err
		case <-s.stopping:
			return status.Error(codes.Unavailable, "the gate stops")
		case <-st.Context().Done():
			return st.Context().Err()
		case <-c.wake:
			if err := st.Send(response(s.ledger.take(c))); err != nil {
				return err
			}
		}
	}
}

// listen reads reports until the stream ends.
func (s *quotaService) listen(st stream, c *client) error {
	domain := ""
	for {
		req, err := st.Recv()
		if errors.Is(err, io.EOF) || errors.Is(err, context.Canceled) {
			return nil
		}
		if err != nil {
			return err
		}
		if d := req.GetDomain(); d != "" {
			domain = d // only the first report has to say it
		}
		for _, u := range req.GetBucketQuotaUsages() {
			if err := s.hear(c, domain, u); err != nil {
				return err
			}
		}
	}
}

// hear takes one report in.
func (s *quotaService) hear(c *client, domain string, u *quotav3.RateLimitQuotaUsageReports_BucketQuotaUsage) error {
	ids := u.GetBucketId().GetBucket()
	entries := make([]entry, 0, len(ids))
	for _, key := range slices.Sorted(maps.Keys(ids)) {
		entries = append(entries, entry{key, ids[key]})
	}
	f, err := read(domain, entries)
	if err != nil {
		return err
	}
	ok := s.ledger.report(time.Now(), c, usage{
		id: u.GetBucketId(), key: keyOf(u.GetBucketId()), ingress: domain, part: f.ask.Partition,
		asked: u.GetNumRequestsAllowed() + u.GetNumRequestsDenied(), elapsed: u.GetTimeElapsed().AsDuration(),
	})
	if !ok {
		return status.Errorf(codes.NotFound, "the domain %.80q names no ingress", domain)
	}
	return nil
}

// keyOf returns a text that no other bucket id has.
func keyOf(id *quotav3.BucketId) string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(id.GetBucket())) {
		b.WriteString(key)
		b.WriteByte(0)
		b.WriteString(id.GetBucket()[key])
		b.WriteByte(0)
	}
	return b.String()
}

// response words what an Envoy must be told.
func response(all []*action) *quotav3.RateLimitQuotaResponse {
	res := &quotav3.RateLimitQuotaResponse{}
	for _, a := range all {
		told := &quotav3.RateLimitQuotaResponse_BucketAction{BucketId: a.id}
		if a.abandon {
			told.BucketAction = &quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction_{
				AbandonAction: &quotav3.RateLimitQuotaResponse_BucketAction_AbandonAction{},
			}
		} else {
			told.BucketAction = &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
				QuotaAssignmentAction: &quotav3.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
					AssignmentTimeToLive: durationpb.New(assignmentTTL), RateLimitStrategy: strategy(a.rate, a.blocked),
				},
			}
		}
		res.BucketAction = append(res.BucketAction, told)
	}
	return res
}

// strategy words a share as a token bucket, the one form of a rate that Envoy's
// filter knows. Equal shares are worded alike: a bucket whose numbers stay keeps
// its tokens.
func strategy(r limiter.Rate, blocked bool) *typev3.RateLimitStrategy {
	if blocked {
		return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_DENY_ALL}}
	}
	if !(r.PerSecond > 0) {
		return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: typev3.RateLimitStrategy_ALLOW_ALL}}
	}
	burst := r.BurstSeconds
	if !(burst > 0) {
		burst = 1
	}
	tokens, every := filling(r.PerSecond)
	return &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
		MaxTokens:     uint32(min(max(math.Floor(r.PerSecond*burst), 1), math.MaxUint32)),
		TokensPerFill: wrapperspb.UInt32(tokens),
		FillInterval:  durationpb.New(every),
	}}}
}

// filling returns a rate, and never more, as tokens in whole seconds: Envoy reads
// no fraction of a second, and takes an interval below one for no limit at all. It
// fills the bucket steadily whatever the interval.
func filling(perSecond float64) (tokens uint32, every time.Duration) {
	const (
		longest = 60   // seconds, unless a token takes longer
		near    = 0.98 // of the rate will do
	)
	nearest := 0.0
	for n := 1.0; n <= longest; n++ {
		t := math.Floor(perSecond * n)
		if t < 1 || t <= nearest*perSecond*n {
			continue
		}
		nearest, tokens, every = t/(perSecond*n), uint32(min(t, math.MaxUint32)), time.Duration(n)*time.Second
		if nearest >= near {
			return tokens, every
		}
	}
	if tokens > 0 {
		return tokens, every
	}
	return 1, time.Duration(math.Ceil(min(1/perSecond, 1e9))) * time.Second
}
