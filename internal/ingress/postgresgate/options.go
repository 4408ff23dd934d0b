package postgresgate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
	"github.com/admitd/admitd/internal/ingress/relay"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// Options configure a [Server]. They are plain data; only Backends is required.
type Options struct {
	// Backends are host:port addresses; connections are spread in turn.
	Backends []string
	// TLS ends clients' TLS in the gate, whichever way they ask for it; nil =
	// none: clients that ask for encryption are answered that there is none,
	// unless PassTLS is set.
	TLS *tls.Config
	// PassTLS forwards a client's request for TLS or GSS encryption to the
	// backend. Of a session that is then encrypted nothing is admitted, only its
	// connection. It has no effect beside TLS or BackendTLS.
	PassTLS bool
	// BackendTLS asks backends for TLS; nil = plain TCP. An empty ServerName
	// is filled in from the address.
	BackendTLS *tls.Config
	// Dial connects to a backend, below TLS; nil = TCP.
	Dial relay.DialFunc
	// DialTimeout bounds connecting to a backend, TLS included; 0 = 5 s.
	DialTimeout time.Duration
	// HandshakeTimeout is how long a client may take to send its first whole
	// message; 0 = 10 s.
	HandshakeTimeout time.Duration
	// FrameTimeout is how long what began to move may stand still; 0 = 30 s.
	FrameTimeout time.Duration

	// PartitionBy names what makes a partition key, in this order, joined by
	// "/". Each is one of database, user, application, client (address),
	// client:BITS (as [ingress.AppendNetwork] reads it), operation, or
	// comment:KEY (a tag of sqlcommenter). None = the partition "default".
	PartitionBy []string
	// Classes says who goes first; nil = nobody. Its By are application and
	// comment:KEY; the operations of rules are spelled as in Costs.
	Classes *ingress.Classes
	// Costs in tokens by operation; see [Operations]. 0 or missing = 1.
	Costs map[string]float64
	// Exempt sessions and operations are counted and never refused.
	Exempt Exemptions
	// GateSuperusers admits superusers as everybody else. They are exempt
	// otherwise: who mends the database must get in.
	GateSuperusers bool
	// PerStatement charges every statement that a client sends outside a
	// transaction, where a unit is charged once otherwise.
	PerStatement bool
	// IdleInTransaction says what becomes of the permit while a session is idle
	// inside a transaction; 0 = [IdleAuto].
	IdleInTransaction IdlePolicy
	// SQLStates replaces the codes of refusals by reason; missing = 53400 for
	// request_rate and cost_exceeds_burst, 53000 for the others.
	SQLStates map[labels.Reason]string
	// NoHints leaves out how long to wait.
	NoHints bool
	// CancelAbandoned closes the backend's connection when its client has
	// gone: the server then stops at its next interrupt.
	CancelAbandoned bool

	// Counts counts what the backend answers; nil = nobody does.
	Counts *ingress.Counts
	// Activity asks a backend who waits for a lock, over a login that needs no
	// permit: permits of sessions that do are given back. nil = nobody is asked.
	Activity func(address string) Activity

	// Askers counts who makes the load; nil = nobody does.
	TopKeys *topkeys.Board
	// Log is told how connections end and backends answer, as by [relay.Options],
	// and, once each, what keeps the gate from seeing work; nil = nobody is.
	Log *slog.Logger
}

// IdlePolicy says what becomes of the permit of a session that is idle inside a
// transaction.
type IdlePolicy uint8

// The policies.
const (
	// IdleAuto, the default, keeps it, and gives it back when the session has been
	// idle for 50 to 100 ms while others wait for a permit or are refused one. The
	// rest of such a transaction is treated as by IdleRelease.
	IdleAuto IdlePolicy = iota
	// IdleRelease gives the permit back; the next statement takes one by force.
	IdleRelease
	// IdleKeep keeps it to the end of the transaction.
	IdleKeep
)

// Exemptions name sessions and operations that are counted but never refused.
type Exemptions struct {
	// Clients by network.
	Clients []netip.Prefix
	// Users by name. A session has its user's name before the server has
	// checked the password, and works only after.
	Users []string
	// Applications by application_name. Clients choose it: a convenience, no
	// protection.
	Applications []string
	// Operations; see [Operations].
	Operations []string
}

// WithDefaults returns o with what stands for its zeros.
func (o Options) WithDefaults() Options {
	o.DialTimeout = ingress.Or(o.DialTimeout, relay.DefaultDialTimeout)
	o.HandshakeTimeout = ingress.Or(o.HandshakeTimeout, relay.DefaultGreeting)
	o.FrameTimeout = ingress.Or(o.FrameTimeout, relay.DefaultPatience)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// validate reports everything that is wrong with the options.
func (o *Options) validate() error {
	var errs []error
	if len(o.Backends) == 0 {
		errs = append(errs, errors.New("postgresgate: no backend"))
	}
	for name, cost := range o.Costs {
		if !slices.Contains(sqltext.Operations(), name) {
			errs = append(errs, fmt.Errorf("postgresgate: cost of %q: no such operation", name))
		}
		if !(cost >= 0 && cost <= limiter.MaxCost) { // nor is it NaN
			errs = append(errs, fmt.Errorf("postgresgate: cost of %s is %v, want 0 to %g", name, cost, limiter.MaxCost))
		}
	}
	for _, name := range o.Exempt.Operations {
		if !slices.Contains(sqltext.Operations(), name) {
			errs = append(errs, fmt.Errorf("postgresgate: exemption of %q: no such operation", name))
		}
	}
	for reason, code := range o.SQLStates {
		if !isState(code) {
			errs = append(errs, fmt.Errorf("postgresgate: SQLSTATE of %s is %q, want five digits or capital letters", reason, code))
		}
	}
	return errors.Join(errs...)
}

// isState reports whether code may be an SQLSTATE of an error that leaves the
// transaction alone.
func isState(code string) bool {
	if len(code) != 5 {
		return false
	}
	for i := range len(code) {
		if c := code[i]; (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}
