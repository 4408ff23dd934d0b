package httpgate

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/labels"
)

// Fields in which clients and proxies say how often they have tried a request, as Go
// spells them.
const (
	headerEnvoyAttempt = "X-Envoy-Attempt-Count"      // from 1 on
	headerGRPCAttempts = "Grpc-Previous-Rpc-Attempts" // attempts before this one
	headerAWSRequest   = "Amz-Sdk-Request"            // attempt=2; max=3
)

// attemptOf returns which attempt at a request its client says it is; it says none where
// nothing, or nothing that can be read, is said.
func attemptOf(h http.Header) (a ingress.Attempt, told bool) {
	for _, name := range [...]string{labels.HeaderAttempt, headerEnvoyAttempt, headerGRPCAttempts, headerAWSRequest} {
		text := first(h[name])
		if text == "" {
			continue
		}
		least := uint64(1)
		switch name {
		case headerGRPCAttempts:
			least = 0
		case headerAWSRequest:
			if text, told = strings.CutPrefix(text, "attempt="); !told {
				continue
			}
			text, _, _ = strings.Cut(text, ";")
		}
		n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 32)
		switch {
		case err != nil || n < least:
			continue
		case n == least:
			return ingress.AttemptFirst, true
		}
		return ingress.AttemptRetry, true
	}
	return 0, false
}
