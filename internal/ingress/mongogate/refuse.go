package mongogate

import (
	"errors"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/mongowire"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Codes of errors that the gate answers with, beside [labels.Code].
const (
	codeInvalidReplicaSetConfig = 93
	codeFailPointInvalid        = 9 // FailedToParse
)

// appendRefusal appends the document of a refusal. Clients of the generation
// Hinted are told the base of their backoff, and that no write was performed: Go's
// drivers before 2.8.1 report a first error with that label as success.
// RetryableWriteError is never among the labels: older drivers would retry at once.
func appendRefusal(dst []byte, d *labels.Document, g Generation, o *Refusal) []byte {
	at, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendDoubleElement(dst, "ok", 0)
	dst = bsoncore.AppendStringElement(dst, "errmsg", d.Errmsg)
	dst = bsoncore.AppendInt32Element(dst, "code", int32(d.Code))
	dst = bsoncore.AppendStringElement(dst, "codeName", d.CodeName)
	if g == Hinted {
		dst = appendLabels(dst, d.ErrorLabels, o.DenyRetries, labels.NoWritesPerformed)
	} else {
		dst = appendLabels(dst, d.ErrorLabels, o.DenyRetries)
	}
	if g == Hinted && d.BaseBackoffMS > 0 {
		dst = bsoncore.AppendInt64Element(dst, "baseBackoffMS", d.BaseBackoffMS)
	}
	if d.RetryAfterMS > 0 {
		dst = bsoncore.AppendInt64Element(dst, "retryAfterMS", d.RetryAfterMS)
	}
	dst = bsoncore.AppendStringElement(dst, "reason", string(d.Reason))
	dst = bsoncore.AppendStringElement(dst, "ingress", d.Ingress)
	dst = bsoncore.AppendStringElement(dst, "partition", d.Partition)
	if d.Limit != "" {
		dst = bsoncore.AppendStringElement(dst, "limit", string(d.Limit))
	}
	return endDocument(dst, at)
}

// appendLabels appends the array of error labels: names, with denyRetries without
// RetryableError, and then more. It has at most eight.
func appendLabels(dst []byte, names []string, denyRetries bool, more ...string) []byte {
	at, dst := bsoncore.AppendArrayElementStart(dst, "errorLabels")
	keys := [...]string{"0", "1", "2", "3", "4", "5", "6", "7"}
	i := 0
	for _, part := range [...][]string{names, more} {
		for _, l := range part {
			if i == len(keys) || denyRetries && l == labels.Retryable {
				continue
			}
			dst = bsoncore.AppendStringElement(dst, keys[i], l)
			i++
		}
	}
	return endDocument(dst, at)
}

// endDocument ends a document or array that was begun at index at.
func endDocument(dst []byte, at int32) []byte {
	dst = append(dst, 0)
	return bsoncore.UpdateLength(dst, at, int32(len(dst))-at)
}

// appendError appends the document of an error that is no refusal.
func appendError(dst []byte, code int32, codeName, errmsg string) []byte {
	at, dst := bsoncore.AppendDocumentStart(dst)
	dst = bsoncore.AppendDoubleElement(dst, "ok", 0)
	dst = bsoncore.AppendStringElement(dst, "errmsg", errmsg)
	dst = bsoncore.AppendInt32Element(dst, "code", code)
	dst = bsoncore.AppendStringElement(dst, "codeName", codeName)
	return endDocument(dst, at)
}

// asRejection returns the refusal that err is.
func asRejection(err error) (*limiter.Rejection, bool) {
	if err == nil { // the usual case, and errors.As is not free
		return nil, false
	}
	return errors.AsType[*limiter.Rejection](err)
}

// refuse answers a command that was not admitted, or drops it when its client
// wants no reply.
func (ses *session) refuse(h mongowire.Header, rej *limiter.Rejection, cost float64) relay.Verdict {
	ses.s.counters.rejected.Add(1)
	if ses.f.noReply {
		ses.s.counters.dropped.Add(1)
		ses.o.Observer.FireAndForgetDropped()
		return relay.Verdict{Action: relay.Swallow}
	}
	refusal := &ses.s.current.Load().Refusal
	d := rej.Document(limiter.Request{Cost: cost, Class: ses.class, Deadline: ses.f.maxTime}, !refusal.NoHints)
	ses.out = beginReply(ses.out[:0], h.ID, ses.f.op)
	ses.out = mongowire.EndFrame(appendRefusal(ses.out, &d, ses.who.generation, refusal), 0)
	if legacy(ses.f.op) && ses.f.body == nil {
		markQueryFailure(ses.out)
	}
	return relay.Verdict{Action: relay.Swallow, Answer: ses.out}
}

// answer replies to the frame with a document.
func (ses *session) answer(h mongowire.Header, doc []byte) relay.Verdict {
	return relay.Verdict{Action: relay.Swallow, Answer: newReply(h.ID, ses.f.op, doc)}
}
