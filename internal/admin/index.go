package admin

import (
	"net/http"

	"github.com/admitd/admitd/internal/httpjson"
)

// endpoint is one thing that the port answers.
type endpoint struct {
	Method  string `json:"method"`
	Path    string `json:"path"`
	Does    string `json:"does"`
	Changes bool   `json:"changes,omitempty"` // asks for the token, where there is one
}

// endpoints lists what the port answers, for a person that asks GET /v1/. A test
// compares it with the routes.
func endpoints() []endpoint {
	return []endpoint{
		{"GET", "/v1/status", "what exists now, and the tenants that ask most; ?ingress= one, ?find=TEXT, ?partitions=N&after=NAME a page of all, ?partitions=all", false},
		{"GET", "/v1/events", "the same as a stream of changes", false},
		{"GET", "/v1/history", "the last half hour; ?ingress= one, ?since=5m less of it", false},
		{"GET", "/v1/top", "who makes the load; ?ingress= one, ?by=client|application|user|operation, ?order=refused, ?n=", false},
		{"GET", "/v1/explain/{ingress}", "why the limit of the partition default is what it is", false},
		{"GET", "/v1/explain/{ingress}/*", "the same of the partition of a key", false},
		{"GET", "/v1/log", "the last lines of the log, without secrets; asks for the token, where there is one", false},
		{"GET", "/v1/config", "the configuration in force, without secrets", false},
		{"GET", "/v1/changes", "what was changed at run time: the file's value and the present one", false},
		{"GET", "/v1/ingresses/{name}", "its settings as PATCH takes them, with an ETag for If-Match", false},
		{"GET", "/v1/ingresses/{name}/overrides", "what is overridden for single keys", false},
		{"GET", "/v1/hello", "what clients that select servers want to know", false},
		{"GET", "/v1/tuner", "what the tuner reads and did; ?records=N", false},
		{"GET", "/v1/tuner/records/{id}", "everything about one decision of the tuner", false},
		{"GET", "/v1/fleet", "the gates that share rates with this one, the shares, and what the gate goes by", false},
		{"GET", "/metrics", "for Prometheus", false},
		{"GET", "/healthz", "whether the process is alive", false},
		{"GET", "/readyz", "whether traffic should be sent here, and what an operator should know", false},
		{"POST", "/v1/reload", "reads the configuration now", true},
		{"PATCH", "/v1/ingresses/{name}", "changes rates, limits or the mode until the next reload, or with overrides one key for a time", true},
		{"DELETE", "/v1/ingresses/{name}/overrides/{id}", "takes an override back", true},
		{"POST", "/v1/tuner/freeze", "stops every change of the tuner", true},
		{"GET", "/v1/shadow", "candidates: what each would have done", false},
		{"POST", "/v1/shadow/{name}/promote", "puts a candidate in force until the next reload", true},
		{"DELETE", "/v1/shadow/promotions/{id}", "takes a promotion back", true},
		{"POST", "/v1/tuner/unfreeze", "lets it go on", true},
		{"POST", "/v1/tuner/revert", "takes all its changes back", true},
		{"POST", "/v1/tuner/revert/{id}", "takes one of them back", true},
	}
}

// index lists the endpoints.
func (*readHandlers) index(w http.ResponseWriter, _ *http.Request) {
	httpjson.JSON(w, http.StatusOK, map[string]any{"endpoints": endpoints()})
}
