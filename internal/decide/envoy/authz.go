package envoy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	authv3 "github.com/envoyproxy/go-control-plane/envoy/service/auth/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/admitd/admitd/internal/decide"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Keys of the context extensions that a route gives to authorization, beside
// [KeyPartition], [KeyOperation] and [KeyClass].
const (
	// KeyIngress names the ingress; it is compulsory.
	KeyIngress = "ingress"
	// KeyHold holds the permit for so long, and names it to the backend in
	// X-Admitd-Permit, which may return it with DELETE /v1/admissions/PERMIT.
	KeyHold = "hold"
)

// patienceShare is the part of the caller's deadline that a request may wait.
const patienceShare = 0.8

// authorization is Envoy's external authorization v3: a refusal with the status,
// the headers and the body that the gate's own clients get.
type authorization struct {
	authv3.UnimplementedAuthorizationServer

	decider *decide.Decider
}

// Check implements the service.
func (s *authorization) Check(ctx context.Context, req *authv3.CheckRequest) (*authv3.CheckResponse, error) {
	ext := req.GetAttributes().GetContextExtensions()
	d := &decision{facts: facts{ask: decide.Ask{
		Via:     decide.ViaAuthorization,
		Ingress: ext[KeyIngress], Partition: ext[KeyPartition], Operation: ext[KeyOperation],
		Class: labels.ParseClass(ext[KeyClass]), MaxWait: patience(ctx), Joined: req.GetAttributes().GetRequest().GetHttp().GetHeaderMap() == nil,
	}}}
	if d.ask.Class == labels.UnknownClass {
		return nil, status.Errorf(codes.InvalidArgument, "class: %.40q is none", ext[KeyClass])
	}
	permit, err := "", error(nil)
	if d.ask.HTTP, err = request(req.GetAttributes()); err == nil {
		permit, err = s.admit(ctx, d, ext[KeyHold])
	}
	if errors.Is(err, decide.ErrUnacceptable) {
		return unacceptable(err), nil
	}
	if err := d.settle(s.decider, err); err != nil {
		return nil, err
	}
	if d.refusal == nil {
		return allowed(permit), nil
	}
	fields := d.fields() // gives the document its status
	denied := &authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode(d.refusal.Status)}, Body: string(append(d.refusal.AppendJSON(nil), '\n')),
	}
	for _, f := range fields {
		denied.Headers = append(denied.Headers, header(f.Name, f.Value))
	}
	return refused(denied), nil
}

func refused(denied *authv3.DeniedHttpResponse) *authv3.CheckResponse {
	return &authv3.CheckResponse{
		Status:       &rpcstatus.Status{Code: int32(codes.PermissionDenied)},
		HttpResponse: &authv3.CheckResponse_DeniedResponse{DeniedResponse: denied},
	}
}

// unacceptable is the answer about a request that a gate answers with 400.
func unacceptable(err error) *authv3.CheckResponse {
	return refused(&authv3.DeniedHttpResponse{
		Status: &typev3.HttpStatus{Code: typev3.StatusCode_BadRequest}, Body: decide.Detail(err) + "\n",
		Headers: []*corev3.HeaderValueOption{header(decide.HeaderStatus, strconv.Itoa(http.StatusBadRequest)), header("Content-Type", "text/plain; charset=utf-8")},
	})
}

// admit asks the gate; permit is "" when none is held.
func (s *authorization) admit(ctx context.Context, d *decision, hold string) (permit string, err error) {
	if hold != "" {
		ttl, err := time.ParseDuration(hold)
		if err != nil || ttl < time.Millisecond || ttl > decide.MaxTTL {
			return "", status.Errorf(codes.InvalidArgument, "hold: %.40q is not a duration from 1ms to %v", hold, decide.MaxTTL)
		}
		return s.decider.Hold(ctx, &d.ask, decide.Hold{TTL: ttl, Expired: limiter.Ignored})
	}
	p, err := s.decider.Admit(ctx, &d.ask)
	if err == nil {
		p.End(limiter.Ignored)
	}
	return "", err
}

// patience is how long a request may wait in queues: most of the time that Envoy
// waits for the answer.
func patience(ctx context.Context) time.Duration {
	end, ok := ctx.Deadline()
	if !ok {
		return limiter.NoWait
	}
	return max(time.Duration(float64(time.Until(end))*patienceShare), 1)
}

// request returns the request that Envoy has before it. The error wraps
// [decide.ErrUnacceptable].
func request(a *authv3.AttributeContext) (*http.Request, error) {
	h := a.GetRequest().GetHttp()
	r := &http.Request{Method: h.GetMethod(), Host: h.GetHost(), Header: make(http.Header, len(h.GetHeaders())), RequestURI: h.GetPath()}
	for name, value := range h.GetHeaders() {
		if name != "" && name[0] != ':' {
			r.Header.Set(name, value)
		}
	}
	for _, f := range h.GetHeaderMap().GetHeaders() { // encode_raw_headers: the others are empty then
		if name := f.GetKey(); name != "" && name[0] != ':' {
			value := f.GetValue()
			if len(f.GetRawValue()) > 0 {
				value = string(f.GetRawValue())
			}
			r.Header.Add(name, value)
		}
	}
	var err error
	if r.RequestURI == "" {
		r.RequestURI = "/"
	}
	if r.URL, err = decide.Target(r.RequestURI); err != nil {
		return nil, err
	}
	if from := a.GetSource().GetAddress().GetSocketAddress(); from != nil {
		r.RemoteAddr = net.JoinHostPort(from.GetAddress(), strconv.FormatUint(uint64(from.GetPortValue()), 10))
	}
	return r, nil
}

// allowed lets the request pass. What a client sent in the header of the permit
// does not reach the backend.
func allowed(permit string) *authv3.CheckResponse {
	ok := &authv3.OkHttpResponse{HeadersToRemove: []string{decide.HeaderPermit}}
	if permit != "" {
		ok = &authv3.OkHttpResponse{Headers: []*corev3.HeaderValueOption{header(decide.HeaderPermit, permit)}}
	}
	return &authv3.CheckResponse{
		Status: &rpcstatus.Status{Code: int32(codes.OK)}, HttpResponse: &authv3.CheckResponse_OkResponse{OkResponse: ok},
	}
}

// header sets a header, whatever was there.
func header(name, value string) *corev3.HeaderValueOption {
	return &corev3.HeaderValueOption{
		Header:       &corev3.HeaderValue{Key: name, Value: value},
		AppendAction: corev3.HeaderValueOption_OVERWRITE_IF_EXISTS_OR_ADD,
	}
}
