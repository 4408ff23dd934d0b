package postgresgate

import (
	"bytes"
	"strconv"
	"strings"
	"time"
)

// maxIdentifier is how much of a name the server looks at, in bytes: it cuts those of
// users and databases, and compares no more of the names of prepared statements.
const maxIdentifier = 63

// identifier returns a name as the server takes it.
func identifier(name []byte) []byte { return name[:min(len(name), maxIdentifier)] }

// maxFact bounds each fact that is kept of a session, in bytes: keys are kept,
// and what clients send may be long.
const maxFact = 255

// startup is what a client says of itself before it logs in.
type startup struct {
	user, database, application string
	timeout                     time.Duration // statement_timeout; 0 = none
	timeoutAtStart              time.Duration // the same when the session began
	replication                 bool
}

// parseStartup reads the parameters of a start-up message, length and version
// included. What is malformed is left to the server to complain about.
func parseStartup(m []byte) (s startup) {
	for b := m[8:]; len(b) > 1; {
		name, rest, ok := cutString(b)
		if !ok {
			break
		}
		value, rest, ok := cutString(rest)
		if !ok {
			break
		}
		s.set(string(name), value)
		b = rest
	}
	if s.database == "" {
		s.database = s.user
	}
	s.timeoutAtStart = s.timeout
	return s
}

// set takes one parameter.
func (s *startup) set(name string, value []byte) {
	fact := string(value[:min(len(value), maxFact)])
	switch name {
	case "user":
		s.user = string(identifier(value))
	case "database":
		s.database = string(identifier(value))
	case "application_name":
		s.application = fact
	case "replication":
		s.replication = isReplication(fact)
	case "statement_timeout":
		s.timeout = parseTimeout(fact)
	case "options":
		s.options(value)
	}
}

// isReplication reports whether a value of the parameter asks for replication:
// every boolean that is true, and "database".
func isReplication(v string) bool {
	switch strings.ToLower(v) {
	case "", "0", "f", "fa", "fal", "fals", "false", "n", "no", "of", "off":
		return false
	}
	return true
}

// options takes the settings of -c name=value and --name=value.
func (s *startup) options(value []byte) {
	words := bytes.Fields(value)
	for i, w := range words {
		setting, long := bytes.CutPrefix(w, []byte("--"))
		if !long {
			var short bool
			if setting, short = bytes.CutPrefix(w, []byte("-c")); !short {
				continue
			}
			if len(setting) == 0 && i+1 < len(words) {
				setting = words[i+1]
			}
		}
		name, v, ok := bytes.Cut(setting, []byte("="))
		if !ok {
			continue
		}
		switch strings.ReplaceAll(strings.ToLower(string(name)), "-", "_") {
		case "statement_timeout":
			s.timeout = parseTimeout(string(v))
		case "application_name":
			s.application = string(v[:min(len(v), maxFact)])
		}
	}
}

// follow takes what a task changes of the time that statements may take.
func (s *startup) follow(st *task) {
	if st.Resets {
		s.timeout = s.timeoutAtStart
	}
	value, ok := st.Sets("statement_timeout")
	switch {
	case !ok:
	case strings.EqualFold(string(value), "default"):
		s.timeout = s.timeoutAtStart
	default:
		s.timeout = parseTimeout(string(value))
	}
}

// timeUnits are what a time may be given in; without one it is milliseconds.
var timeUnits = []struct { //nolint:gochecknoglobals // a constant table
	suffix string
	unit   time.Duration
}{
	{"us", time.Microsecond},
	{"ms", time.Millisecond},
	{"min", time.Minute},
	{"s", time.Second},
	{"h", time.Hour},
	{"d", 24 * time.Hour},
	{"", time.Millisecond},
}

// parseTimeout reads a time as the server's settings spell it. It returns 0,
// which is none, for what it cannot read.
func parseTimeout(v string) time.Duration {
	v = strings.Trim(strings.TrimSpace(v), "'\" ")
	for _, u := range timeUnits {
		digits, ok := strings.CutSuffix(v, u.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
		if err != nil || !(n > 0) || n > float64(1<<53)/float64(u.unit) {
			return 0
		}
		return time.Duration(n * float64(u.unit))
	}
	return 0
}
