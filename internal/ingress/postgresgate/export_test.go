package postgresgate

import (
	"time"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// SQLState opens sqlState.
func SQLState(m []byte) string { return string(sqlState(m)) }

// Judge opens judge.
func Judge(m []byte) limiter.Outcome { return judge(m) }

// Refusal is the refusal of a gate that drains, without a hint.
func Refusal(name string) []byte {
	d := labels.New(labels.Draining, name, "default")
	d.Limit = "ingress"
	return appendRefusal(nil, &d, nil)
}

// AppendRefusal opens appendRefusal.
func AppendRefusal(d labels.Document, states map[labels.Reason]string) []byte {
	return appendRefusal(nil, &d, states)
}

// Startup opens parseStartup.
func Startup(m []byte) (user, database, application string, timeout time.Duration, replication bool) {
	s := parseStartup(m)
	return s.user, s.database, s.application, s.timeout, s.replication
}

// StartupSize opens startupSize.
func StartupSize(b []byte) (int, error) { return startupSize(b) }
