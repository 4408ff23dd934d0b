package postgresgate

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"

	"github.com/admitd/admitd/labels"
)

// Codes of refusals, class 53: insufficient resources. Drivers keep the
// connection on them and none retries by itself.
const (
	stateOverload = "53000"
	stateQuota    = "53400"
)

// errorFields are what an ErrorResponse says.
type errorFields struct {
	severity, code, message, detail, hint string
}

// appendError appends an ErrorResponse.
func appendError(dst []byte, f errorFields) []byte {
	at := len(dst)
	dst = append(dst, msgError, 0, 0, 0, 0)
	for _, field := range [...]struct {
		kind  byte
		value string
	}{{'S', f.severity}, {'V', f.severity}, {'C', f.code}, {'M', f.message}, {'D', f.detail}, {'H', f.hint}} {
		if field.value == "" {
			continue
		}
		dst = append(append(append(dst, field.kind), field.value...), 0)
	}
	dst = append(dst, 0)
	binary.BigEndian.PutUint32(dst[at+1:], uint32(len(dst)-at-1))
	return dst
}

// maxName bounds a partition's name in a message, in bytes: clients choose it.
const maxName = 64

// appendRefusal appends the ErrorResponse of a refusal: who refused and for whom in
// the message, the document on one line of JSON as detail, the wait as hint. states
// replaces codes by reason.
func appendRefusal(dst []byte, d *labels.Document, states map[labels.Reason]string) []byte {
	f := errorFields{severity: "ERROR", code: stateOf(d.Reason, states), message: message(d), detail: string(d.AppendJSON(nil))}
	if d.RetryAfterMS > 0 {
		f.hint = fmt.Sprintf("retry in %d ms", d.RetryAfterMS)
	}
	return appendError(dst, f)
}

// message returns the message of a refusal, on one line.
func message(d *labels.Document) string {
	name := d.Partition
	if len(name) > maxName {
		name = name[:maxName] + "…"
	}
	return "admitd " + d.Ingress + ": " + d.Errmsg + " for " + strconv.Quote(strings.ToValidUTF8(name, "?"))
}

// stateOf returns the SQLSTATE of a reason.
func stateOf(reason labels.Reason, states map[labels.Reason]string) string {
	if code := states[reason]; code != "" {
		return code
	}
	if reason == labels.RequestRate || reason == labels.CostExceedsBurst {
		return stateQuota
	}
	return stateOverload
}

// appendCanceled appends the answer to a statement that was cancelled while it
// waited, in the server's words.
func appendCanceled(dst []byte) []byte {
	return appendError(dst, errorFields{severity: "ERROR", code: "57014", message: "canceling statement due to user request"})
}
