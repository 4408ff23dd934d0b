package config

import (
	"net"
	"slices"
	"strings"
)

// HTTP configures what only an HTTP gate needs.
type HTTP struct {
	// How long connecting to the backend may take.
	ConnectTimeout Duration `yaml:"connectTimeout" default:"2s" min:"1ms" max:"10m"`
	// How long a client may take to send the head of a request.
	HeaderTimeout Duration `yaml:"headerTimeout" default:"10s" min:"1ms" max:"1h" reload:"connections"`
	// Longest silence inside a body, in either direction. Event streams and
	// tunnels may be silent.
	StreamIdle Duration `yaml:"streamIdle" default:"1m" min:"1ms" max:"24h"`
	// Slowest client, in bytes per second, on average. It has to send its body that
	// fast until its answer begins, and to take the answer that fast while the
	// backend still sends. Without it slow clients could hold every permit. 0 = any.
	MinBodyRate Size `yaml:"minBodyRate" default:"500" min:"0" max:"1GiB"`
	// Time that a client has before that rate counts.
	BodyGrace Duration `yaml:"bodyGrace" default:"20s" min:"1ms" max:"24h"`
	// When connections that are not used are closed, on both sides.
	IdleTimeout Duration `yaml:"idleTimeout" default:"90s" min:"1ms" max:"24h" reload:"connections"`
	// Idle connections kept to the backend.
	MaxIdle int `yaml:"maxIdle" default:"256" min:"1" max:"100000"`
	// Adds a Via header to requests.
	Via bool `yaml:"via" default:"false"`
	// Keeps the client's X-Forwarded-Proto, X-Forwarded-Host, X-Real-IP and
	// Forwarded. Only behind a proxy that overwrites them.
	TrustForwarded bool `yaml:"trustForwarded" default:"false"`
	// Holds the permit of a WebSocket or an event stream for as long as it
	// lives. Otherwise it ends once the stream is established.
	HoldStreams bool `yaml:"holdStreams" default:"false"`
	// Tells in each answer's X-Admitd-Timing how many microseconds the gate itself
	// took, without the backend and without waiting.
	Timing bool `yaml:"timing" default:"false"`
	// Statuses by which the backend says that it is overloaded. They make a limit
	// shrink. Empty: 503 and 504. A 429 is not among them, since it is most often
	// about one client.
	OverloadStatus []int `yaml:"overloadStatus" single:"true" min:"400" max:"599"`
	// Path at which the gate answers the hello of its clients; off leaves it to
	// the backend.
	Hello string `yaml:"hello" default:"/v1/hello" enum:"/v1/hello off"`
}

// protocolHTTP is what the configuration knows of HTTP.
func protocolHTTP() *Protocol {
	return &Protocol{
		Name: "http", Schemes: []string{"http", "https"}, Standalone: true,
		By: []PartKind{
			{"header", headerName}, {"query", wordOf("query")}, {"path", pathArgument}, {"client", prefixLength}, {"constant", wordOf("constant")},
		},
		Claims: []PartKind{{"header", headerName}, {"query", wordOf("query")}, {"priority", nil}},
		Costs:  true, CostHeader: true, Exempts: true, Operation: httpOperation, Statuses: true,
		warn: warnHTTP,
	}
}

// speaksHTTP1 is what a gate cannot do for a backend.
const speaksHTTP1 = "the gate speaks HTTP/1.1 with the backend, and a backend that speaks HTTP/2 only, as gRPC servers do, cannot be behind it"

// grpcPort is where gRPC servers listen by custom.
const grpcPort = "50051"

// warnHTTP warns of a backend that looks like one that speaks HTTP/2 only: by its port,
// or by operations that are gRPC's, such as "POST /orders.v1.Orders/Create".
func warnHTTP(path string, in *Ingress) []Warning {
	_, port, _ := net.SplitHostPort(hostPort(in.Backend))
	looks := port == grpcPort
	for op := range in.Cost.ByOperation {
		looks = looks || isGRPCMethod(op)
	}
	if !looks {
		return nil
	}
	return []Warning{{path + ".backend", speaksHTTP1}}
}

// isGRPCMethod reports whether an operation is spelled as a method of gRPC.
func isGRPCMethod(op string) bool {
	service, method, ok := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(op, "POST "), "/"), "/")
	return ok && strings.Contains(service, ".") && strings.HasPrefix(strings.TrimPrefix(op, "POST "), "/") &&
		!strings.ContainsAny(service, "{}*") && method != "" && !strings.Contains(method, "/") &&
		method[0] >= 'A' && method[0] <= 'Z'
}

func headerName(arg string, _ bool) string {
	if !isToken(arg) {
		return "needs the name of a header, such as header:X-Tenant"
	}
	switch strings.ToLower(arg) {
	case "connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade", "content-length":
		return "is a header of the connection or the message, which does not tell requests apart"
	}
	return ""
}

func wordOf(kind string) func(arg string, given bool) string {
	return func(arg string, _ bool) string {
		if arg == "" {
			return "needs a name, such as " + kind + ":tenant"
		}
		return ""
	}
}

func pathArgument(arg string, given bool) string {
	if !given {
		return ""
	}
	return pathPattern(arg)
}

// httpOperation checks a path pattern, perhaps after a method.
func httpOperation(op string) string {
	pattern := op
	if method, rest, two := strings.Cut(op, " "); two {
		if pattern = rest; !slices.Contains(httpMethods(), method) {
			return "must begin with a method, such as GET /health, or with a path"
		}
	}
	return pathPattern(pattern)
}

// httpMethods are the methods an operation may name.
func httpMethods() []string {
	return []string{"CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"}
}

// pathPattern says what is wrong with a path pattern such as
// /v1/{tenant}/items or /internal/*, or nothing.
func pathPattern(p string) string {
	if !strings.HasPrefix(p, "/") {
		return "needs a path that begins with a slash, such as /v1/{tenant} or /internal/*"
	}
	seen := map[string]bool{}
	segments := strings.Split(p[1:], "/")
	for i, s := range segments {
		if strings.Contains(s, "*") && (s != "*" || i < len(segments)-1) {
			return "may hold * as its last segment only"
		}
		if !strings.ContainsAny(s, "{}") {
			continue
		}
		name := strings.TrimSuffix(strings.TrimPrefix(s, "{"), "}")
		switch {
		case len(name) != len(s)-2, name == "", strings.Trim(name, nameLetters+"_") != "":
			return "has a segment that is neither plain nor one {name}"
		case seen[name]:
			return "holds {" + name + "} twice"
		}
		seen[name] = true
	}
	return ""
}
