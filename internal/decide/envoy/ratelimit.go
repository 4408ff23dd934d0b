package envoy

import (
	"context"
	"errors"
	"math"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	commonv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// RateLimitService is Envoy's rate limit service v3. A descriptor spends its
// hits from the rates; one with [KeyRequestID] holds a permit as well.
type RateLimitService struct {
	ratelimitv3.UnimplementedRateLimitServiceServer

	decider *decide.Decider
}

// decision is what became of one descriptor.
type decision struct {
	facts

	permit  limiter.Permit
	refusal *labels.Document // nil = admitted
	form    labels.HTTPForm
}

// ShouldRateLimit implements the service. All descriptors are admitted, or none:
// where one is refused the others get their tokens back.
func (s *RateLimitService) ShouldRateLimit(ctx context.Context, req *ratelimitv3.RateLimitRequest) (*ratelimitv3.RateLimitResponse, error) {
	if len(req.GetDescriptors()) > maxDescriptors {
		return nil, status.Errorf(codes.InvalidArgument, "%d descriptors, at most %d", len(req.GetDescriptors()), maxDescriptors)
	}
	all := make([]decision, len(req.GetDescriptors()))
	var err error
	for i, d := range req.GetDescriptors() {
		if all[i].facts, err = s.read(req, d); err != nil {
			return nil, err
		}
	}
	var worst *decision
	for i := range all {
		if err = s.decide(ctx, &all[i]); err != nil {
			undo(all[:i])
			return nil, err
		}
		if d := &all[i]; d.refusal != nil && (worst == nil || d.refusal.RetryAfterMS > worst.refusal.RetryAfterMS) {
			worst = d
		}
	}
	if worst == nil {
		worst = s.keep(all)
	}
	if worst != nil {
		undo(all)
	}
	return answer(all, worst), nil
}

// read returns what a descriptor says. Its hits are its own, or the request's, or
// one.
func (s *RateLimitService) read(req *ratelimitv3.RateLimitRequest, d *commonv3.RateLimitDescriptor) (facts, error) {
	entries := make([]entry, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = entry{e.GetKey(), e.GetValue()}
	}
	f, err := read(req.GetDomain(), entries)
	if err != nil {
		return f, err
	}
	f.ask.Cost = float64(max(req.GetHitsAddend(), 1))
	if hits := d.GetHitsAddend(); hits != nil {
		f.ask.Cost, f.looks = float64(hits.GetValue()), hits.GetValue() == 0 // who looks asks for what the operation costs
	} else if f.ask.Operation != "" && req.GetHitsAddend() == 0 {
		f.ask.Cost = 0 // what the operation costs
	}
	f.ends, f.ask.Via = d.GetIsNegativeHits(), decide.ViaRateLimit
	return f, nil
}

// decide asks the gate about one descriptor, or ends its permit. The error is for
// the caller, who then does what failure_mode_deny says.
func (s *RateLimitService) decide(ctx context.Context, d *decision) (err error) {
	if d.ends {
		s.decider.End(d.id, d.outcome) // one that has expired was ended then
		return nil
	}
	d.permit, err = s.decider.Admit(ctx, &d.ask)
	if d.looks && err == nil { // it would be admitted, and takes nothing
		undo([]decision{*d})
		d.permit = limiter.Permit{}
	}
	return d.settle(s.decider, err)
}

// settle notes a refusal; other errors are for the caller.
func (d *decision) settle(decider *decide.Decider, err error) error {
	if err == nil {
		return nil
	}
	if doc, form, ok := decider.Refusal(&d.ask, err); ok {
		d.refusal, d.form = &doc, form
		return nil
	}
	if errors.Is(err, decide.ErrUnknownIngress) {
		return status.Errorf(codes.NotFound, "the domain %.80q names no ingress", d.ask.Ingress)
	}
	if _, worded := status.FromError(err); worded {
		return err
	}
	return status.Error(codes.Unavailable, err.Error())
}

// keep holds the permits that are named and gives the others back: of a request
// whose end nobody tells there is nothing to learn. It returns a descriptor for
// whose permit there is no place, with nothing kept, or nil.
func (s *RateLimitService) keep(all []decision) *decision {
	var named []decide.Kept
	var last *decision
	for i := range all {
		d := &all[i]
		if d.id == "" || d.ends || d.looks {
			continue
		}
		named = append(named, decide.Kept{Permit: d.permit, Hold: decide.Hold{ID: d.id, TTL: d.ttl, Expired: limiter.Dropped}})
		last = d
	}
	if err := s.decider.Keep(named); err != nil && last != nil {
		_ = last.settle(s.decider, err) // no place is a refusal
		return last
	}
	for i := range all {
		if d := &all[i]; d.id == "" || d.ends || d.looks {
			d.permit.End(limiter.Ignored)
		}
		all[i].permit = limiter.Permit{} // ended, or the decision API's from now on
	}
	return nil
}

// undo gives back permits and tokens: no work is going to run.
func undo(all []decision) {
	for i := range all {
		d := &all[i]
		d.permit.Charge(-d.ask.Cost)
		d.permit.End(limiter.Ignored)
	}
}

// answer words the decisions; worst is the refusal that the client is told, nil
// when there is none.
func answer(all []decision, worst *decision) *ratelimitv3.RateLimitResponse {
	res := &ratelimitv3.RateLimitResponse{
		OverallCode: ratelimitv3.RateLimitResponse_OK, Statuses: make([]*ratelimitv3.RateLimitResponse_DescriptorStatus, len(all)),
	}
	for i := range all {
		res.Statuses[i] = all[i].status()
	}
	if worst == nil {
		return res
	}
	res.OverallCode = ratelimitv3.RateLimitResponse_OVER_LIMIT
	for _, f := range worst.fields() {
		res.ResponseHeadersToAdd = append(res.ResponseHeadersToAdd, &corev3.HeaderValue{Key: f.Name, Value: f.Value})
	}
	res.RawBody = append(worst.refusal.AppendJSON(nil), '\n')
	return res
}

// fields are the headers that a client is told its refusal by.
func (d *decision) fields() []labels.Field {
	fields := []labels.Field{{Name: "Content-Type", Value: "application/problem+json"}}
	for _, f := range d.refusal.HTTPFields(d.form) {
		if f.Value != "" && f.Name != "Connection" {
			fields = append(fields, f)
		}
	}
	return append(fields, labels.Field{Name: decide.HeaderStatus, Value: strconv.Itoa(d.refusal.Status)})
}

// status words one decision. The limit is told with a refusal only: beside an
// admission Envoy would tell clients that nothing remains of it.
func (d *decision) status() *ratelimitv3.RateLimitResponse_DescriptorStatus {
	st := &ratelimitv3.RateLimitResponse_DescriptorStatus{Code: ratelimitv3.RateLimitResponse_OK}
	if d.refusal == nil {
		return st
	}
	st.Code = ratelimitv3.RateLimitResponse_OVER_LIMIT
	if d.form.NoHints {
		return st
	}
	st.CurrentLimit = currentLimit(d.form.PerSecond)
	if wait := d.refusal.RetryAfterMS; wait > 0 {
		st.DurationUntilReset = durationpb.New(time.Duration(wait) * time.Millisecond)
	}
	return st
}

// currentLimit words a rate in whole requests of the smallest unit that has one;
// nil = unlimited.
func currentLimit(perSecond float64) *ratelimitv3.RateLimitResponse_RateLimit {
	if !(perSecond > 0) {
		return nil
	}
	for _, unit := range []struct {
		unit    ratelimitv3.RateLimitResponse_RateLimit_Unit
		seconds float64
	}{
		{ratelimitv3.RateLimitResponse_RateLimit_SECOND, 1},
		{ratelimitv3.RateLimitResponse_RateLimit_MINUTE, 60},
		{ratelimitv3.RateLimitResponse_RateLimit_HOUR, 3600},
		{ratelimitv3.RateLimitResponse_RateLimit_DAY, 86400},
	} {
		if n := math.Floor(perSecond * unit.seconds); n >= 1 || unit.seconds == 86400 {
			return &ratelimitv3.RateLimitResponse_RateLimit{RequestsPerUnit: uint32(max(min(n, math.MaxUint32), 1)), Unit: unit.unit}
		}
	}
	return nil
}
