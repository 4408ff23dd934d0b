package pulsargate

import (
	"errors"
	"time"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/pulsarwire"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// noRequest is the request id of an ERROR that answers no request.
const noRequest = ^uint64(0)

// refusal returns the ERROR frame that refuses a request. It is the only refusal
// there is: a SEND_ERROR makes clients drop the whole connection.
func refusal(requestID uint64, code pulsarwire.ServerError, why string) []byte {
	body := pulsarwire.Error{RequestID: requestID, Code: code, Message: "admitd: " + why}.Append(nil)
	return pulsarwire.AppendFrame(nil, pulsarwire.TypeError, body)
}

// refuse answers a request of the client that goes nowhere.
func refuse(requestID uint64, code pulsarwire.ServerError, why string) relay.Verdict {
	return relay.Verdict{Action: relay.Swallow, Answer: refusal(requestID, code, why)}
}

// blame says what stands behind a refusal of the limiter, or behind a place in
// its queue: the name of the limit and the reason to tell clients. Its rates
// belong to what identifies a partition; its concurrency is the broker's.
func blame(by By, indebted bool, err error) (limit string, reason pulsarwire.Reason) {
	rate := indebted || isFor(err, labels.RequestRate)
	switch {
	case !rate:
		return LimitConcurrency, pulsarwire.BrokerProduceQuotaExceeded
	case by == ByTopic:
		return LimitRequestRate, pulsarwire.TopicProduceQuotaExceeded
	default:
		return LimitRequestRate, pulsarwire.ResourceGroupProduceQuotaExceeded
	}
}

// exceedsBurst reports whether the limiter could never admit the request.
func exceedsBurst(err error) bool { return isFor(err, labels.CostExceedsBurst) }

// isFor reports whether an error is a refusal for that reason.
func isFor(err error, reason labels.Reason) bool {
	rejection, ok := errors.AsType[*limiter.Rejection](err)
	return ok && rejection.Reason == reason
}

// retryAfter returns when to ask the limiter again.
func retryAfter(err error, cost float64) time.Duration {
	rejection, ok := errors.AsType[*limiter.Rejection](err)
	if !ok {
		return maxRetry
	}
	// With this deadline hints are spread below maxRetry, so that producers that
	// wait for the same limit do not all ask at its bound.
	hint := rejection.Hint(limiter.Request{Cost: cost, Deadline: 3 * maxRetry})
	return min(max(hint.RetryAfter, minRetry), maxRetry)
}
