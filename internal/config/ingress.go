package config

// Ingress configures one gate: where it listens, what it protects, and what
// may pass.
type Ingress struct {
	// Unique name; a label of metrics. Letters, digits, dot, dash, underscore;
	// at most 64.
	Name string `yaml:"name" required:"true"`
	// Protocol spoken on both sides.
	Protocol string `yaml:"protocol" default:"http" enum:"@protocols" selects:"true" reload:"ingress"`
	// Address that clients connect to, host:port. Empty: no listener; the gate
	// decides for the decision API only, with a backend as one of the gates before
	// that.
	Listen string `yaml:"listen" default:"" reload:"connections"`
	// What is protected. HTTP: http://host:port or https://host:port. MongoDB and PostgreSQL: host:port.
	// Pulsar: host:port, or a pulsar:// URL.
	Backend string `yaml:"backend" default:"" reload:"backend"`
	// How many gates share this backend without a fleet. A knee limit is divided
	// among them, and hints are small while another gate may be idle. auto: others
	// share it, and their number is not known or changes. A knee limit then begins
	// at a quarter and asks whose queue it sees, at a price while this gate is alone;
	// all else is as with 1.
	Gates Count `yaml:"gates" default:"1" min:"1" max:"10000"`
	// Latency promised for what is admitted; 0s = none is stated.
	Objective Duration `yaml:"objective" default:"0s" min:"0s" max:"1h"`
	// Whether decisions bind: enforce refuses, shadow decides and counts but
	// never refuses, off admits everything.
	Mode string `yaml:"mode" default:"enforce" enum:"enforce shadow off"`
	// How long a drain waits for what is in progress.
	DrainTimeout Duration `yaml:"drainTimeout" default:"10s" min:"1ms" max:"1h"`
	// Expects a PROXY protocol header, version 1 or 2, on every connection.
	ProxyProtocol bool `yaml:"proxyProtocol" default:"false" reload:"connections"`
	// Addresses or CIDRs of the proxies whose headers are believed. Others are
	// turned away. It must be set when listen is neither a loopback nor a private
	// address. Empty elsewhere: whoever connects is believed.
	ProxyProtocolFrom []Prefix `yaml:"proxyProtocolFrom" single:"true" reload:"connections"`
	// TLS towards clients. Off while certFile is empty.
	TLS ServerTLS `yaml:"tls" reload:"connections"`
	// TLS towards the backend.
	BackendTLS ClientTLS `yaml:"backendTLS" reload:"connections"`
	// How long the backend may be silent between the end of a request and the
	// head of its answer.
	BackendTimeout Duration `yaml:"backendTimeout" default:"30s" min:"1ms" max:"24h" for:"http"`
	// What becomes of work whose caller has gone. finish: the gate reads the answer
	// to nobody, and holds the permit until then. cancel: it hangs up on the
	// backend. Choose cancel only for a backend that stops working when it is hung
	// up on.
	Abandon string `yaml:"abandon" default:"finish" enum:"finish cancel" for:"http mongodb pulsar postgres" reload:"wire"`
	// Largest request header that is read; a larger one is answered with 431.
	MaxHeaderBytes Size `yaml:"maxHeaderBytes" default:"64KiB" min:"4KiB" max:"16MiB" for:"http" reload:"connections"`
	// Largest request body that is forwarded; 0 = no bound.
	MaxBodyBytes Size `yaml:"maxBodyBytes" default:"1GiB" min:"0" max:"1TiB" for:"http"`
	// What a request spends from the token buckets.
	Cost Cost `yaml:"cost" for:"@costs"`
	// The ingress connection rate limiter.
	Connections Connections `yaml:"connections"`
	// The ingress request rate limiter.
	Requests Requests `yaml:"requests"`
	// The per-partition concurrency limiters.
	Partitions Partitions `yaml:"partitions"`
	// Who goes first when not everything fits. Without by, rules and a default of
	// its own everything is equal.
	Classes Classes `yaml:"classes"`
	// How refusals are written.
	Rejection Rejection `yaml:"rejection"`
	// Recording of decisions for the overload lab. Off while file is empty.
	Trace Trace `yaml:"trace"`
	// What only an HTTP gate needs.
	HTTP *HTTP `yaml:"http" for:"http"`
	// What only a MongoDB gate needs.
	MongoDB *MongoDB `yaml:"mongodb" for:"mongodb"`
	// What only a PostgreSQL gate needs.
	Postgres *Postgres `yaml:"postgres" for:"postgres"`
	// What only a Pulsar gate needs.
	Pulsar *Pulsar `yaml:"pulsar" for:"pulsar"`
}

// ServerTLS configures TLS towards clients.
type ServerTLS struct {
	// PEM file with the certificate chain.
	CertFile string `yaml:"certFile" default:"" reads:"file"`
	// PEM file with the private key.
	KeyFile string `yaml:"keyFile" default:"" reads:"file"`
	// PEM file with the authorities that client certificates must come from.
	// Empty: no client certificate is asked.
	ClientCAFile string `yaml:"clientCAFile" default:"" reads:"file"`
}

// ClientTLS configures TLS towards a backend.
type ClientTLS struct {
	// Speaks TLS to the backend. An https or pulsar+ssl backend implies it.
	Enabled bool `yaml:"enabled" default:"false"`
	// PEM file with the authorities the backend's certificate must come from.
	// Empty: those of the system.
	CAFile string `yaml:"caFile" default:"" reads:"file"`
	// PEM file with the gate's own certificate chain.
	CertFile string `yaml:"certFile" default:"" reads:"file"`
	// PEM file with the gate's own private key.
	KeyFile string `yaml:"keyFile" default:"" reads:"file"`
	// Name the backend's certificate must bear. Empty: the backend's host.
	ServerName string `yaml:"serverName" default:""`
	// Accepts any certificate. For tests only.
	InsecureSkipVerify bool `yaml:"insecureSkipVerify" default:"false"`
}

// Cost says how many tokens a request spends.
type Cost struct {
	// Request header that announces the cost, a decimal number. HTTP only;
	// empty: no header is read. Name one only where clients can be trusted:
	// who sets it sets what the request is charged.
	Header string `yaml:"header" default:""`
	// Tokens of a request of which nothing else is known.
	Default float64 `yaml:"default" default:"1" min:"0.001" max:"1e9"`
	// Tokens by operation. HTTP: patterns such as "GET /health",
	// "POST /orders/{id}", "/internal/*"; the most specific one counts, and the
	// dearest reading of a path that can be read in two ways, such as in another
	// case. An operation for GET is one for HEAD too, unless HEAD has its own.
	// MongoDB: a command name, or a class: read, write, admin, release, other.
	// PostgreSQL: select, insert, update, delete, ddl, copy, begin, control, other.
	ByOperation map[string]float64 `yaml:"byOperation" min:"0.001" max:"1e9"`
	// What requests of a shape are seen to cost.
	Shapes Shapes `yaml:"shapes"`
}

// Shapes learns what requests cost that ask for the same with other values: a
// method and a route, a command with the fields it chooses by, a statement
// without its literals.
type Shapes struct {
	// Charges each request what requests of its shape were seen to take at the
	// backend. The charge is a multiple of the mean. A shape that takes more than
	// half of the time is capped when others find no room.
	Learn bool `yaml:"learn" default:"false"`
	// Shapes that are known; those that are asked for least make room for others.
	Max int `yaml:"max" default:"1000" min:"1" max:"100000"`
}

// Connections is the ingress connection rate limiter.
type Connections struct {
	// New connections per second; unlimited and 0 are no bound.
	Rate float64 `yaml:"rate" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bucket depth in seconds of the rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
	// Connections that may wait for a token before further ones are refused.
	QueueDepth int `yaml:"queueDepth" default:"0" min:"0" max:"1000000"`
	// The rate is that of all gates of the fleet together.
	Shared bool `yaml:"shared" default:"false"`
	// Hard bound on open connections.
	MaxOpen int `yaml:"maxOpen" default:"10000" min:"1" max:"10000000"`
	// How many of these places are kept for those who must get in: superusers,
	// replication, and the users and clients that are exempt. PostgreSQL only.
	Reserved int `yaml:"reserved" default:"0" min:"0" max:"10000000"`
	// Client addresses or CIDRs that are not limited.
	Exempt []Prefix `yaml:"exempt" single:"true"`
}

// Requests is the ingress request rate limiter.
type Requests struct {
	// Requests, or rather their tokens, per second; unlimited and 0 are no bound.
	Rate float64 `yaml:"rate" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bucket depth in seconds of the rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
	// Requests that may borrow a token and wait for it before further ones are
	// refused.
	QueueDepth int `yaml:"queueDepth" default:"0" min:"0" max:"1000000"`
	// The rate is that of all gates of the fleet together.
	Shared bool `yaml:"shared" default:"false"`
	// Requests that no limiter touches.
	Exempt Exempt `yaml:"exempt"`
	// Operations on connections on which nobody has logged in yet. gate: they cost
	// what others cost. pass: they cost no token and need a permit like all others,
	// as with servers that demand credentials. auto: pass once the backend has
	// refused one for want of a login, and has carried out no read or write without.
	// MongoDB only: elsewhere a connection logs in before it may ask, or never.
	Unauthenticated string `yaml:"unauthenticated" default:"auto" enum:"auto gate pass"`
}

// Exempt names requests that no limiter touches.
type Exempt struct {
	// Client addresses or CIDRs.
	CIDRs []Prefix `yaml:"cidrs" single:"true"`
	// Prefixes of the application names that clients announce. Clients choose
	// these names: they are a convenience, no protection.
	Applications []string `yaml:"applications" single:"true"`
	// Operations, spelled as in cost.byOperation; for MongoDB commands and PostgreSQL operations only. An
	// HTTP path with an escape, ";", "//", "." or ".." in it matches none.
	Operations []string `yaml:"operations" single:"true"`
}

// Rejection says how refusals are written.
type Rejection struct {
	// Sends the computed wait: retryAfterMS and baseBackoffMS, and over HTTP
	// Retry-After and the RateLimit fields.
	Hints bool `yaml:"hints" default:"true"`
	// HTTP status of a refusal. auto: 429 where a rate was the cause, else 503.
	Status Status `yaml:"status" default:"auto" enum:"auto 429 503 462"`
}

// Trace configures the recorder that feeds the overload lab.
type Trace struct {
	// File that decisions are appended to. Empty: nothing is recorded.
	File string `yaml:"file" default:""`
	// Size at which recording stops.
	MaxSize Size `yaml:"maxSize" default:"64MiB" min:"64KiB" max:"64GiB"`
}
