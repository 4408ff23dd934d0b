package config

import (
	"regexp"
	"slices"
)

// Postgres configures what only a PostgreSQL gate needs.
type Postgres struct {
	// What is admitted and charged. transaction: what a client sends while the
	// server is idle, up to the next ReadyForQuery, once. statement: each
	// statement outside a transaction.
	Unit string `yaml:"unit" default:"transaction" enum:"transaction statement"`
	// What becomes of the permit while a session is idle inside a transaction.
	// auto: the transaction keeps it, so that the limit bounds open transactions; it
	// is given back when the session has been idle for 50 to 100 ms while others wait
	// for a permit or are refused one. release: it is given back at once, and each
	// statement takes one by force. keep: the transaction keeps it to its end.
	IdleInTransaction string `yaml:"idleInTransaction" default:"auto" enum:"auto release keep" reload:"connections"`
	// Admits superusers as everybody else. They are exempt otherwise: who mends
	// the database must get in.
	GateSuperusers bool `yaml:"gateSuperusers" default:"false"`
	// Users that no limiter touches.
	ExemptUsers []string `yaml:"exemptUsers" single:"true"`
	// SQLSTATE of refusals by reason, for pools that close connections on class
	// 53. Missing: 53400 for request_rate and cost_exceeds_burst, else 53000.
	SQLState map[string]string `yaml:"sqlstate"`
	// Forwards a client's request for TLS to the backend, without tls and
	// backendTLS. Sessions that are then encrypted are not admitted, only their
	// connections are counted. Otherwise a client that asks for TLS is answered
	// that there is none.
	PassTLS bool `yaml:"passTLS" default:"false" reload:"connections"`
	// A login over which the servers are asked, four times a second while a
	// statement waits for a permit, which sessions wait for a lock: their permits
	// are given back until they go on.
	Activity PostgresActivity `yaml:"activity"`
	// Backends beside the first one, host:port, that hold the same data;
	// connections are spread in turn.
	MoreBackends []string `yaml:"moreBackends" single:"true" reload:"connections"`
	// How long connecting to the backend may take, TLS included.
	DialTimeout Duration `yaml:"dialTimeout" default:"5s" min:"1ms" max:"10m" reload:"connections"`
	// How long a client may take to send its first whole message.
	HandshakeTimeout Duration `yaml:"handshakeTimeout" default:"10s" min:"1ms" max:"10m" reload:"connections"`
	// How long a message on its way may stand still, in either direction.
	FrameTimeout Duration `yaml:"frameTimeout" default:"30s" min:"1ms" max:"1h" reload:"connections"`
}

// PostgresActivity is a login that reads pg_stat_activity of the backend, over
// backendTLS if that is set. It needs the role pg_read_all_stats, which is part of
// pg_monitor, and passes no limiter.
type PostgresActivity struct {
	// Name of the user. Empty: nobody is asked, and statements that have lasted
	// much longer than usual leave a quarter of the limit to others.
	User string `yaml:"user" default:""`
	// File with the password; it is read at every connect. Empty: none is sent.
	PasswordFile string `yaml:"passwordFile" default:"" reads:"file"`
	// Database to log in to.
	Database string `yaml:"database" default:"postgres"`
}

// protocolPostgres is what the configuration knows of PostgreSQL.
func protocolPostgres() *Protocol {
	return &Protocol{
		Name: "postgres", HostPort: true,
		By: []PartKind{
			{"database", nil},
			{"user", nil},
			{"application", nil},
			{"client", prefixLength},
			{"operation", nil},
			{"comment", commentTag},
		},
		Claims: []PartKind{{"application", nil}, {"comment", commentTag}},
		Costs:  true, Users: true, Exempts: true, Reserves: true, Patience: true, Operation: postgresOperation,
		check: func(v validator, path string, in *Ingress) {
			if in.Postgres != nil {
				checkPostgres(v, path+".postgres", in.Postgres)
				if in.Postgres.PassTLS && (in.TLS.CertFile != "" || in.BackendTLS.Enabled) {
					v.relate("excludes tls and backendTLS, which end TLS in the gate", true, path+".postgres.passTLS")
				}
			}
		},
		warn: func(path string, in *Ingress) (all []Warning) {
			if in.Postgres != nil && in.Postgres.PassTLS {
				all = append(all, Warning{path + ".postgres.passTLS", "sessions that a client encrypts towards the backend are not limited, only their connections are counted"})
			}
			return all
		},
	}
}

// commentTag checks the tag of comment:KEY.
func commentTag(arg string, given bool) string {
	if !given || arg == "" || len(arg) > 255 {
		return "takes the name of a tag, such as comment:route"
	}
	return ""
}

// postgresOperations are the operations by which PostgreSQL statements are told
// apart.
func postgresOperations() []string {
	return []string{"select", "insert", "update", "delete", "ddl", "copy", "begin", "control", "other"}
}

// postgresOperation checks the spelling of an operation.
func postgresOperation(op string) string {
	if !slices.Contains(postgresOperations(), op) {
		return "must be " + list(postgresOperations())
	}
	return ""
}

// sqlState is the form of an SQLSTATE.
var sqlState = regexp.MustCompile(`^[0-9A-Z]{5}$`)

// Reasons are the reasons of refusals, as the table of labels has them.
func Reasons() []string {
	return []string{"request_rate", "concurrency_limit", "queue_timeout", "cost_exceeds_burst", "shed", "draining"}
}

// checkPostgres checks the block of an ingress whose backend is given.
func checkPostgres(v validator, path string, p *Postgres) {
	for reason, code := range p.SQLState {
		at := join(path+".sqlstate", reason)
		if !slices.Contains(Reasons(), reason) {
			v.relate("is no reason of a refusal: must be "+list(Reasons()), reason, at)
		}
		if !sqlState.MatchString(code) || code[:2] == "00" {
			v.relate("must be five digits or capital letters, such as 53000", code, at)
		}
	}
	if a := &p.Activity; a.User == "" && a.PasswordFile != "" {
		v.relate("needs activity.user", a.PasswordFile, path+".activity.passwordFile")
	}
	for i, b := range p.MoreBackends {
		v.dialAddress(v.at(path+".moreBackends", i), b)
	}
}
