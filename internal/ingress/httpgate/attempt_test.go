package httpgate_test

import (
	"net/http"
	"testing"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
)

// Clients say in fields of their own how often they have tried a request.
func TestAttempts(t *testing.T) {
	for text, tc := range map[string]struct {
		name  string
		want  ingress.Attempt
		quiet bool
	}{
		"1":                           {name: "X-Admitd-Attempt", want: ingress.AttemptFirst},
		"2":                           {name: "X-Admitd-Attempt", want: ingress.AttemptRetry},
		"0":                           {name: "X-Admitd-Attempt", quiet: true},
		"-1":                          {name: "X-Admitd-Attempt", quiet: true},
		"99999999999999999999":        {name: "X-Admitd-Attempt", quiet: true},
		"":                            {name: "X-Admitd-Attempt", quiet: true},
		" 1 ":                         {name: "X-Envoy-Attempt-Count", want: ingress.AttemptFirst},
		"3":                           {name: "X-Envoy-Attempt-Count", want: ingress.AttemptRetry},
		"1 ":                          {name: "Grpc-Previous-Rpc-Attempts", want: ingress.AttemptRetry},
		"0 ":                          {name: "Grpc-Previous-Rpc-Attempts", want: ingress.AttemptFirst},
		"attempt=1; max=3":            {name: "Amz-Sdk-Request", want: ingress.AttemptFirst},
		"attempt=2":                   {name: "Amz-Sdk-Request", want: ingress.AttemptRetry},
		"ttl=20260101T000000Z; max=3": {name: "Amz-Sdk-Request", quiet: true},
		"2; max=3":                    {name: "Amz-Sdk-Request", quiet: true},
		"x":                           {name: "X-Other", quiet: true},
	} {
		got, told := httpgate.AttemptOf(http.Header{tc.name: {text}})
		if got != tc.want && told || told == tc.quiet {
			t.Errorf("%s: %q is %v, %v; want %v, %v", tc.name, text, got, told, tc.want, !tc.quiet)
		}
	}
	h := http.Header{"X-Admitd-Attempt": {"2"}, "X-Envoy-Attempt-Count": {"1"}}
	if n := testing.AllocsPerRun(100, func() { httpgate.AttemptOf(h) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if got, _ := httpgate.AttemptOf(h); got != ingress.AttemptRetry {
		t.Error("a proxy on the way has tried it once, its client twice: it is a retry")
	}
}
