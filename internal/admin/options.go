package admin

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
	"github.com/admitd/admitd/status"
)

// Errors that the daemon's side returns and the server turns into answers.
var (
	// ErrUnknownIngress: no ingress has that name. Answered with 404.
	ErrUnknownIngress = errors.New("admin: no such ingress")
	// ErrExposed is returned by [Server.Serve] for a listener that others than
	// this machine can reach, without a token and without Insecure, and by
	// [Server.SetToken] for dropping the token of such a listener.
	ErrExposed = errors.New("admin: a non-loopback address needs a token, or insecure")
	// ErrChanged: what a change was made for is not in force any more. Answered with
	// 412.
	ErrChanged = errors.New("admin: the settings have been changed meanwhile")
	// ErrDraining: the end has begun and settings stay as they are. Answered with
	// 503.
	ErrDraining = errors.New("admin: the daemon is draining, settings stay as they are")
)

// Invalid is the error for settings that do not hold, with every problem at
// once. Answered with 400.
type Invalid struct{ Problems []string }

// Error implements error.
func (e *Invalid) Error() string { return "admin: invalid: " + strings.Join(e.Problems, "; ") }

// State is what the daemon says of itself. Safe for concurrent use.
type State interface {
	// Health is cheap: it is asked every few seconds.
	Health() Health
	// Snapshot reads what exists now, of one ingress or of all ("").
	Snapshot(ingress string, o limiter.StatusOptions) statusdoc.Snapshot
}

// Settings is the daemon's configuration. Safe for concurrent use.
type Settings interface {
	// Config returns the effective configuration without secrets, for JSON.
	Config() any
	// Reload reads the configuration now and returns what that changed; by is who
	// asked. The error is an [*Invalid] when it does not hold; the running one then
	// stays in force.
	Reload(ctx context.Context, by string) ([]Move, error)
	// Ingress returns the settings of an ingress that a patch can change, as a
	// patch; the error may be [ErrUnknownIngress].
	Ingress(name string) (any, error)
	// Patch changes one ingress while it runs: all of the patch, or nothing
	// with an [*Invalid] or [ErrUnknownIngress]. before and after are the
	// ingress's settings, for JSON.
	Patch(ctx context.Context, ingress string, p Patch) (before, after any, err error)
	// Changes returns what was changed at run time since the configuration was
	// read; overrides are apart.
	Changes() []Change
}

// Change is one setting that differs from the configuration as it was read.
type Change struct {
	Ingress string   `json:"ingress"`
	Path    []string `json:"path"` // as in the configuration; a named partition by its name
	File    any      `json:"file"` // nil = the file does not set it
	Now     any      `json:"now"`  // nil = it is not set any more
}

// Move is one setting that was changed.
type Move struct {
	Setting string `json:"setting"` // its path in the configuration; an ingress or a partition by its name
	Before  any    `json:"before"`  // nil = it was not set
	After   any    `json:"after"`   // nil = it is not set any more
}

// Options of [New]. State and Settings are required.
type Options struct {
	State    State
	Settings Settings
	// Overrides answers for single keys; nil = 404.
	Overrides Overrides
	// Tuner answers /v1/tuner; nil = 404.
	Tuner Tuner
	// Fleet returns how the daemon stands in its group, for /v1/fleet; nil, or
	// returning nil = there is none.
	Fleet func() *status.Fleet
	// Pending waits, for a second or so, until a change is in force at all gates that
	// share what was changed, and returns what to say when it is not; nil = nothing
	// is shared.
	Pending func(ctx context.Context) string
	// Shadow answers /v1/shadow; nil = there are no candidates.
	Shadow Shadow
	// Log lines for GET /v1/log, as text, without secrets; nil = 404.
	Lines func() []byte
	// Metrics answers GET /metrics; nil = 404.
	Metrics http.Handler
	// Hello answers GET /v1/hello, false while draining; nil = 404.
	Hello func() (labels.Hello, bool)
	// Token that requests which change something carry as a bearer, or several of
	// them, as for [Server.SetToken]; "" = none is asked for. Profiles are served only with a token.
	Token string
	// Address is where the server is going to listen; nil = it is not known
	// before [Server.Serve].
	Address net.Addr
	// ReadsNeedToken asks for the token, where there is one, on everything but
	// the health checks, the clients' hello and the files of the live page.
	ReadsNeedToken bool
	// Hostname is a name that this machine is called by, beside addresses; "" =
	// it has none.
	Hostname string
	// Insecure allows changes without a token from other machines and under
	// any host name.
	Insecure bool
	// MaxSubscribers bounds the readers of GET /v1/events; 0 = 64.
	MaxSubscribers int
	// Log takes what an operator must know; nil = discarded.
	Log *slog.Logger
}

// Health is whether the daemon can serve.
type Health struct {
	Listening bool     // every ingress accepts connections
	Draining  bool     // nothing new is admitted
	Detail    []string // what an operator should know, ready or not
}

// Patch is what can be changed while an ingress runs.
type Patch struct {
	// Settings are those to change, an object in the words of the configuration, but for
	// named partitions, which are keyed by their names. What is left out stays.
	Settings json.RawMessage
	// Overrides change single keys for a time, by key; see [Overrides].
	Overrides map[string]OverridePatch

	// By is who asked; "" = the daemon itself.
	By string
	// Check is asked before anything is changed, while nothing else can be; its
	// error is returned. nil = nothing is asked.
	Check func() error
}
