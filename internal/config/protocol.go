package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/config/strict"
)

// Protocol is what the configuration knows of a protocol. There is one literal
// for each, in the file of its own section; nothing else in this room asks which
// protocol it has before it. What is left out, the protocol does not have.
type Protocol struct {
	Name string // as the key protocol spells it

	// Schemes are what a backend's URL may begin with; the first is shown as an
	// example. None: a backend is no URL.
	Schemes []string
	// HostPort says that a backend is, or may be, host:port.
	HostPort bool
	// Standalone says that an ingress may have neither listener nor backend: the
	// gate decides for the decision API only.
	Standalone bool

	// By are the kinds of parts that identify a partition, in the order of the
	// documentation.
	By []PartKind
	// Parts is how many of them may be joined; 0 = 8.
	Parts int
	// AlwaysBy says that an empty list identifies partitions too.
	AlwaysBy bool

	// Claims are what a request may claim its class with, in the order of the
	// documentation.
	Claims []PartKind

	// Costs says that requests have a cost.
	Costs bool
	// CostHeader says that a request may announce its cost.
	CostHeader bool
	// Exempts says that requests may be exempted from the limiters.
	Exempts bool
	// Operation says what is wrong with the spelling of an operation, "" when
	// nothing is. In costs the words of Classes are operations too.
	Operation func(op string) string
	// Classes are the words that stand for many operations in cost.byOperation.
	Classes []string
	// Reserves says that places at the door can be kept.
	Reserves bool
	// Patience says that no client waits or tries again by itself, so that the
	// gate does it for them: see [Patience].
	Patience bool
	// Users says that the gate knows who the user is.
	Users bool
	// Strangers says that a connection may ask for something before it logs in.
	Strangers bool
	// Statuses says that the status of a refusal can be chosen.
	Statuses bool

	// check checks the section of its own; nil = it has none, or any will do.
	check func(v validator, path string, in *Ingress)
	// warn tells what is valid and leaves something without a limit; nil =
	// nothing does.
	warn func(path string, in *Ingress) []Warning
}

// Warning is something that a valid configuration says and its author may not
// have meant.
type Warning struct {
	Path    string `json:"path"` // of the key, such as ingresses[0].postgres.passTLS
	Message string `json:"message"`
}

// Warnings returns the warnings about a valid configuration, in the order of its
// ingresses.
func (c *Config) Warnings() (all []Warning) {
	for i := range c.Ingresses {
		in, path := &c.Ingresses[i], element("ingresses", i)
		if warn := protocol(in.Protocol).warn; warn != nil {
			all = append(all, warn(path, in)...)
		}
		all = append(all, c.warnShare(path, in)...)
	}
	return all
}

// warnShare warns of limits that add up before one backend: those of the partitions of an
// ingress, and those of several ingresses.
func (c *Config) warnShare(path string, in *Ingress) (all []Warning) {
	share := in.Partitions.Share
	if share == ShareBackend {
		return nil
	}
	if share == ShareOwn && in.Partitions.Total == 0 && in.Partitioned() {
		all = append(all, Warning{path + ".partitions.share", "every key has a limit of its own and nothing bounds all of them together; leave share out or write a total, unless each key has a backend of its own"})
	}
	for i := range c.Ingresses {
		other := &c.Ingresses[i]
		if in.Backend != "" && other.Name != in.Name && other.BackendAddress() == in.BackendAddress() {
			message := fmt.Sprintf("ingress %q has the same backend, and the limits of the two add up; leave share out in both", other.Name)
			return append(all, Warning{path + ".partitions.share", message})
		}
	}
	return all
}

// PartKind is one kind of part that identifies a partition.
type PartKind struct {
	Name string
	// Argument says what is wrong with what stands behind the colon, "" when
	// nothing is; nil = nothing may stand there.
	Argument func(arg string, given bool) string
}

// known are the protocols.
var known = []*Protocol{protocolHTTP(), protocolMongoDB(), protocolPostgres(), protocolPulsar()} //nolint:gochecknoglobals // a table, changed by Register only

// Register adds a protocol until undo is called, for programs that bring one of
// their own. It must not be called while configurations are read.
func Register(p *Protocol) (undo func()) {
	before := known
	known = append(slices.Clone(known), p)
	return func() { known = before }
}

// protocol returns the protocol of an ingress. A shape with an unknown one has
// been reported and completed with the default.
func protocol(name string) *Protocol {
	for _, p := range known {
		if p.Name == name {
			return p
		}
	}
	return known[0]
}

// patientDepth is how many requests may wait where clients do not by themselves.
const patientDepth = 1000

// Patience returns what "queue: auto" means where no client waits or tries again
// by itself: how many requests may wait in a partition, and how long, which is
// three quarters of the objective, or 250ms. ok is false for other protocols.
func Patience(in *Ingress) (depth int, wait time.Duration, ok bool) {
	if !protocol(in.Protocol).Patience {
		return 0, 0, false
	}
	if in.Objective > 0 {
		return patientDepth, time.Duration(in.Objective) * 3 / 4, true
	}
	return patientDepth, 250 * time.Millisecond, true
}

// protocolsThat names the protocols that have something.
func protocolsThat(has func(p *Protocol) bool) []string {
	var names []string
	for _, p := range known {
		if has(p) {
			names = append(names, p.Name)
		}
	}
	return names
}

// Words returns the words of a tag. The word @protocols stands for the names of
// all protocols and @costs for those whose requests have a cost.
func Words(tag string) []string {
	words := strings.Fields(tag)
	if len(words) != 1 {
		return words
	}
	switch words[0] {
	case "@protocols":
		return protocolsThat(func(*Protocol) bool { return true })
	case "@costs":
		return protocolsThat(func(p *Protocol) bool { return p.Costs })
	default:
		return words
	}
}

// names names the kinds of parts.
func names(kinds []PartKind) []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

// identifier says what is wrong with a part that is to be one of the kinds, or
// nothing.
func (p *Protocol) identifier(kinds []PartKind, by string) string {
	name, arg, given := strings.Cut(by, ":")
	for _, k := range kinds {
		switch {
		case k.Name != name:
		case k.Argument != nil:
			return k.Argument(arg, given)
		case given:
			return "takes no argument"
		default:
			return ""
		}
	}
	message := "must begin with " + list(names(kinds)) + " for protocol " + p.Name
	if n := strict.Nearest(name, names(kinds)); n != "" {
		message += fmt.Sprintf(", did you mean %q?", n)
	}
	return message
}

// parts is how many parts may identify a partition.
func (p *Protocol) parts() int {
	if p.Parts > 0 {
		return p.Parts
	}
	return 8
}
