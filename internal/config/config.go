package config

import (
	_ "embed" // for the schema
	"slices"

	"github.com/admitd/admitd/internal/config/strict"
)

// Config is a whole configuration, defaulted and valid. It is plain data:
// treat it as immutable once [Parse] returned it.
type Config struct {
	// The admin port: metrics, health, status, runtime settings.
	Admin Admin `yaml:"admin"`
	// Where those ask who decide before work of their own: the decision API,
	// /v1/authorize, and Envoy's services over gRPC. Off while listen is empty.
	Decisions Decisions `yaml:"decisions"`
	// How long the daemon goes on serving after SIGTERM, while /readyz answers
	// 503, before it closes its listeners: longer than balancers take to notice.
	DrainDelay Duration `yaml:"drainDelay" default:"0s" min:"0s" max:"10m"`
	// What the daemon writes to stderr about itself.
	Log Log `yaml:"log"`
	// File that keeps over a restart what limits have learned: the latency without
	// load of each partition, and when it was learned. Written every minute and at
	// the end. A file that is damaged or older than a day is ignored; one that
	// something else wrote is left alone. It also keeps, however old it is, what
	// people asked of the tuner: a freeze, settings that they set or took back, and
	// the policies that are locked.
	// Empty: nothing is kept. A restart in the middle of an overload may then take
	// the latency of a queue for that of the backend.
	StateFile string `yaml:"stateFile" default:"" reload:"restart"`
	// The clock guard.
	Clock Clock `yaml:"clock"`
	// Export of traces over OTLP/HTTP. Off while the endpoint is empty.
	Tracing Tracing `yaml:"tracing" reload:"restart"`
	// What is shared with other gates. Nothing while fleet.redis.addresses is empty.
	Fleet Fleet `yaml:"fleet"`
	// What this gate says of itself at /v1/hello.
	Hello Hello `yaml:"hello"`
	// The policy engine that moves rates and limits as signals say.
	Tuner Tuner `yaml:"tuner"`
	// Candidates: other limits that decide on the same requests and refuse
	// nobody, at most four.
	Shadow []Shadow `yaml:"shadow"`
	// The gates, one per backend and protocol. At least one.
	Ingresses []Ingress `yaml:"ingresses" required:"true"`
}

// Admin configures the admin port.
type Admin struct {
	// Address of the admin port, host:port. An address that is not a loopback
	// needs tokenFile, or insecure: true.
	Listen string `yaml:"listen" default:"127.0.0.1:9462" reload:"restart"`
	// File that holds the bearer token asked of every request that changes
	// something. Empty: no token is asked.
	TokenFile string `yaml:"tokenFile" default:"" reads:"file"`
	// Who may read: open, everybody who reaches the port; token, who has the
	// token. Health checks are open to all.
	Reads string `yaml:"reads" default:"open" enum:"open token" reload:"restart"`
	// Permits an admin port beyond the loopback without a token. Whoever can
	// reach it can then change limits and switch gates off.
	Insecure bool `yaml:"insecure" default:"false" reload:"restart"`
}

// Decisions configures the listener of those who ask.
type Decisions struct {
	// Address, host:port. An address that is not a loopback needs tokenFile,
	// tls.clientCAFile, or insecure: true. Empty: nobody listens.
	Listen string `yaml:"listen" default:"" reload:"restart"`
	// File that holds the token that callers carry, as a bearer or in
	// X-Admitd-Token. Not the admin port's: whoever asks for permits must not be
	// able to change limits. Empty: no token is asked.
	TokenFile string `yaml:"tokenFile" default:"" reads:"file"`
	// Permits a listener beyond the loopback that asks for nothing. Whoever can
	// reach it can then spend the rates and hold the permits.
	Insecure bool `yaml:"insecure" default:"false" reload:"restart"`
	// TLS towards callers. Off while certFile is empty.
	TLS ServerTLS `yaml:"tls" reload:"restart"`
}

// Log configures the daemon's own log.
type Log struct {
	// Least severe level that is written.
	Level string `yaml:"level" default:"info" enum:"debug info warn error"`
	// Form of each line. auto is text where a person reads, on a terminal, and
	// JSON anywhere else.
	Format string `yaml:"format" default:"auto" enum:"auto json text" reload:"restart"`
}

// Clock configures the clock guard.
type Clock struct {
	// What adaptive limiters do when the clock cannot be trusted: auto uses
	// each limit's fallback until the clock recovers; fixed always uses it;
	// off disables the guard.
	Fallback string `yaml:"fallback" default:"auto" enum:"auto fixed off"`
}

// Tracing configures the export of spans.
type Tracing struct {
	// URL of an OTLP/HTTP collector, such as http://127.0.0.1:4318. Empty: no
	// tracing.
	Endpoint string `yaml:"endpoint" default:""`
	// Share of the requests without a sampled parent that are traced.
	SampleRatio float64 `yaml:"sampleRatio" default:"0.01" min:"0" max:"1"`
	// Headers sent to the collector, such as an authorization. Never shown.
	Headers map[string]Secret `yaml:"headers"`
}

// Hello is what clients that select servers read at /v1/hello.
type Hello struct {
	// Role of this gate: router is one of several equal gates; the others say
	// what the server behind it is.
	Role string `yaml:"role" default:"router" enum:"router standalone primary secondary"`
	// Name of the replica set. Empty: none.
	SetName string `yaml:"setName" default:""`
	// Tags that read preferences select by.
	Tags map[string]string `yaml:"tags"`
}

// The types of package strict of which configurations, and what is said of one that
// is wrong, are made.
type (
	// Duration is a span of time, written as 250ms.
	Duration = strict.Duration
	// Size is a number of bytes, written as 64KiB.
	Size = strict.Size
	// Status is the HTTP status of a refusal; 0 is auto.
	Status = strict.Status
	// Count is a whole number, or auto.
	Count = strict.Count
	// Prefix is a range of addresses.
	Prefix = strict.Prefix
	// Secret is a string that is never shown.
	Secret = strict.Secret
	// Overlay is some keys of a section, laid over it as a patch is.
	Overlay = strict.Overlay
	// Problem is one fault of a configuration.
	Problem = strict.Problem
	// Problems is every fault of one.
	Problems = strict.Problems
)

// Auto is a [Count] that is written as auto.
const Auto = strict.Auto

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema, draft 2020-12, of the configuration. The
// slice is the caller's.
func Schema() []byte { return slices.Clone(schema) }
