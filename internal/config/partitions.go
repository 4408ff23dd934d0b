package config

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Partitions configures the per-partition concurrency limiters.
type Partitions struct {
	// What identifies a partition; several are joined by a slash. HTTP:
	// header:NAME (header:Host is the host, without its port), query:NAME, path,
	// path:/pattern/{x}, client, client:BITS, constant:NAME. A path is read as the
	// most generous backend reads it, so that another spelling is no other key.
	// What proves who a client is (Authorization, Proxy-Authorization, Cookie, key,
	// apikey, sig, signature, and what has token, secret, password, api-key, credential,
	// session or jwt in its name) is shown by sha256: and 16 digits of its hash, unless
	// a named partition serves it. Overrides take either.
	// MongoDB: database, collection, command, application, driver, user,
	// client, client:BITS, readPreference, comment. Pulsar: one of topic,
	// namespace, tenant, client; empty is topic. client:BITS is the network of the
	// client: 1 to 32 bits are of IPv4, and IPv6 is cut at /64; 33 to 128 are of IPv6,
	// and of IPv4 it is the address. Else empty: every request
	// belongs to the partition "default".
	By []string `yaml:"by" single:"true"`
	// Partitions that may exist for keys without a name here; keys beyond it
	// share the partition "overflow".
	Max int `yaml:"max" default:"1000" min:"1" max:"100000"`
	// Hard bound on the permits of all partitions together; 0 = none.
	Total int `yaml:"total" default:"0" min:"0" max:"1000000"`
	// What the partitions share. backend: what the backend can do. One limit is found
	// from all that goes there, also through other ingresses with the same backend, and
	// while there is not enough for all each partition is served by its weight; a limit
	// of its own is a bound below that, and with knee only maxLimit is. own: nothing,
	// for keys that stand for different backends. one: as backend, but the common limit
	// is that of default, whatever its algorithm, and no other ingress shares it; the
	// limits of named partitions are not looked at.
	Share string `yaml:"share" default:"backend" enum:"backend own one"`
	// The form of every partition that has no name here.
	Default Partition `yaml:"default"`
	// Partitions with a form of their own. They inherit nothing from default.
	Named []NamedPartition `yaml:"named"`
}

// What partitions share.
const (
	ShareBackend = "backend"
	ShareOne     = "one"
	ShareOwn     = "own"
)

// Partitioned reports whether an ingress may have partitions besides "default".
func (in *Ingress) Partitioned() bool {
	return len(in.Partitions.By) > 0 || protocol(in.Protocol).AlwaysBy
}

// Partition is the form of a partition.
type Partition struct {
	// Requests per second of this partition, in addition to the ingress's
	// rate; unlimited and 0 are no bound.
	Rate float64 `yaml:"rate" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bucket depth in seconds of the rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
	// The rate is that of all gates of the fleet together; in default that of each
	// key.
	Shared bool `yaml:"shared" default:"false"`
	// How the limit of requests in flight is found.
	Limit Limit `yaml:"limit"`
	// Requests that may wait for a permit.
	Queue Queue `yaml:"queue"`
	// Its part of what the partitions share while there is not enough for all: one of
	// weight 2 is given twice as much as one of weight 1.
	Weight int `yaml:"weight" default:"1" min:"1" max:"1000"`
	// Share that it may hold of what the partitions share, or of the total; 0 = all.
	MaxShare float64 `yaml:"maxShare" default:"0" min:"0" max:"1"`
}

// NamedPartition is a partition with a name and a form of its own.
type NamedPartition struct {
	// Unique name; a label of metrics. Not "default" or "overflow".
	Name string `yaml:"name" required:"true"`
	// Key that it serves. A trailing * matches any rest; exact matches go
	// first, then the longest prefix. Empty: the name.
	Match string `yaml:"match" default:""`
	// Requests per second of this partition, in addition to the ingress's
	// rate; unlimited and 0 are no bound.
	Rate float64 `yaml:"rate" default:"0" zero:"unlimited" min:"0" max:"1e9"`
	// Bucket depth in seconds of the rate.
	BurstSeconds float64 `yaml:"burstSeconds" default:"1" min:"0.001" max:"86400"`
	// The rate is that of all gates of the fleet together; in default that of each
	// key.
	Shared bool `yaml:"shared" default:"false"`
	// How the limit of requests in flight is found.
	Limit Limit `yaml:"limit"`
	// Requests that may wait for a permit.
	Queue Queue `yaml:"queue"`
	// Its part of what the partitions share while there is not enough for all: one of
	// weight 2 is given twice as much as one of weight 1.
	Weight int `yaml:"weight" default:"1" min:"1" max:"1000"`
	// Share that it may hold of what the partitions share, or of the total; 0 = all.
	MaxShare float64 `yaml:"maxShare" default:"0" min:"0" max:"1"`
}

// Form is what a named partition has in common with the others.
func (n *NamedPartition) Form() Partition {
	return Partition{
		Rate: n.Rate, BurstSeconds: n.BurstSeconds, Shared: n.Shared, Limit: n.Limit, Queue: n.Queue,
		Weight: n.Weight, MaxShare: n.MaxShare,
	}
}

// Queue bounds the requests that wait for a permit.
type Queue struct {
	// The word auto, in place of a mapping. As many may wait as the limit's own
	// queue would hold. Nobody waits longer than twice the latency without load, nor
	// past the objective or the caller's deadline. In PostgreSQL up to 1000 wait,
	// for three quarters of the objective or 250ms, since its clients do not wait by
	// themselves.
	Auto bool `yaml:"auto" default:"true" word:"auto"`
	// Requests that may wait; 0 = none, refuse at once.
	Depth int `yaml:"depth" default:"0" min:"0" max:"1000000"`
	// Longest wait; 0 with a depth = 1s.
	MaxWait Duration `yaml:"maxWait" default:"0s" min:"0s" max:"1h"`
}

// Limit chooses and tunes the algorithm that finds how many requests of a
// partition may be in flight. Keys of other algorithms are refused, and their
// fields here are zero.
type Limit struct {
	// The algorithm. knee is made to be left alone; the others are for those who
	// know them.
	Algorithm string `yaml:"algorithm" default:"knee" enum:"knee fixed aimd vegas gradient gradient2" selects:"true"`
	// The limit itself.
	Limit int `yaml:"limit" default:"20" min:"1" max:"1000000" for:"fixed"`
	// Latency above which a request counts as dropped; 0s = 0.8 of the objective,
	// or 200ms when none is stated.
	RequestTimeout Duration `yaml:"requestTimeout" default:"0s" min:"0s" max:"1h" for:"aimd"`
	// Limit before anything is learned. Where it is not written it lies between the
	// bounds.
	InitialLimit int `yaml:"initialLimit" default:"20" min:"1" max:"1000000" for:"knee aimd vegas gradient gradient2"`
	// Least limit.
	MinLimit int `yaml:"minLimit" default:"1" min:"1" max:"1000000" for:"knee aimd gradient gradient2"`
	// Greatest limit.
	MaxLimit int `yaml:"maxLimit" default:"1000" per:"knee=10000 gradient2=200" min:"1" max:"1000000" for:"knee aimd vegas gradient gradient2"`
	// What the limit is multiplied by after a drop.
	BackoffRatio float64 `yaml:"backoffRatio" default:"0.9" min:"0.5" below:"1" for:"aimd"`
	// Estimated queue below which the limit grows.
	Alpha int `yaml:"alpha" default:"3" min:"1" max:"1000" for:"vegas"`
	// Estimated queue above which the limit shrinks.
	Beta int `yaml:"beta" default:"6" min:"1" max:"1000" for:"vegas"`
	// Latency, as a multiple of the one without load, that is still tolerated.
	RTTTolerance float64 `yaml:"rttTolerance" default:"2.0" min:"1" max:"100" for:"gradient gradient2"`
	// Samples over which the long-term latency is averaged.
	LongWindow int `yaml:"longWindow" default:"600" min:"1" max:"1000000" for:"gradient2"`
	// The limit is that of all gates of the fleet together, split by demand; in
	// default that of each key.
	Shared bool `yaml:"shared" default:"false"`
	// When a window of samples is ready to change the limit.
	Window Window `yaml:"window"`
	// What is used while the clock cannot be trusted.
	Fallback Fallback `yaml:"fallback"`
}

// What aimd takes for a drop where nobody says it: a share of the objective, so
// that the limit shrinks before the promise is broken.
const (
	timeoutOfObjective    = 0.8
	defaultRequestTimeout = Duration(200 * time.Millisecond)
)

// complete fills in what depends on the ingress.
func (l *Limit) complete(objective Duration) {
	switch {
	case l.Algorithm != "aimd" || l.RequestTimeout > 0:
	case objective > 0:
		l.RequestTimeout = max(Duration(timeoutOfObjective*float64(objective)), Duration(time.Millisecond))
	default:
		l.RequestTimeout = defaultRequestTimeout
	}
}

// Window says when a window of samples is ready to change a limit.
type Window struct {
	// Least length of a window.
	Min Duration `yaml:"min" default:"1s" min:"1ms" max:"1h"`
	// Greatest length of a window.
	Max Duration `yaml:"max" default:"1s" min:"1ms" max:"1h"`
	// Samples a window needs.
	Samples int `yaml:"samples" default:"10" min:"1" max:"100000"`
}

// Fallback is what a limit is while the clock cannot be trusted.
type Fallback struct {
	// The fixed limit.
	Limit int `yaml:"limit" default:"20" min:"1" max:"1000000"`
}

func checkPartitions(v validator, path string, in *Ingress) {
	p, proto := &in.Partitions, protocol(in.Protocol)
	for i, by := range p.By {
		at := v.at(path+".by", i)
		if problem := proto.identifier(proto.By, by); problem != "" {
			v.relate(problem, by, at, pathOf(path)+".protocol")
		} else if slices.Contains(p.By[:i], by) {
			v.relate("is listed twice", by, at)
		}
	}
	if most := proto.parts(); len(p.By) > most {
		v.relate(fmt.Sprintf("lists more than %d for protocol %s", most, in.Protocol), len(p.By), path+".by", pathOf(path)+".protocol")
	}
	checkLimit(v, path+".default.limit", &p.Default.Limit)
	names, matches := map[string]int{}, map[string]int{}
	for i := range p.Named {
		n, at := &p.Named[i], element(path+".named", i)
		v.name(at+".name", n.Name)
		if n.Name == "default" || n.Name == "overflow" {
			v.relate("is the name of a partition that exists in every gate", n.Name, at+".name")
		}
		if star := strings.IndexByte(n.Match, '*'); star >= 0 && star < len(n.Match)-1 {
			v.relate("may hold * at its end only", n.Match, at+".match")
		}
		v.unique(names, i, path+".named", "name", n.Name)
		v.unique(matches, i, path+".named", "match", n.Match)
		checkLimit(v, at+".limit", &n.Limit)
		if n.MaxShare > 0 && p.Share == ShareOwn && p.Total == 0 {
			v.relate("is a share of nothing: with share: own it needs a total", n.MaxShare, at+".maxShare", path+".share")
		}
	}
	if len(p.Named) > 0 && len(p.By) == 0 && in.Listen != "" && !proto.AlwaysBy {
		v.relate("is required for named partitions: without it every request belongs to default", nil, path+".by", path+".named")
	}
}

// checkAuto checks that gates: auto has a limit to work on. It is asked of what is
// written down only: who gives a limit another algorithm at run time has reasons,
// and gates cannot be changed there.
func checkAuto(v validator, c *Config) {
	for i := range c.Ingresses {
		in := &c.Ingresses[i]
		knee := in.Partitions.Default.Limit.Algorithm == "knee"
		for j := range in.Partitions.Named {
			knee = knee || in.Partitions.Share != ShareOne && in.Partitions.Named[j].Limit.Algorithm == "knee"
		}
		knee = knee || in.Partitions.Share == ShareBackend && in.Partitioned() // the common limit is one
		if in.Gates == Auto && !knee {
			at := element("ingresses", i)
			v.relate("means nothing without a limit of the algorithm knee; leave it out", "auto", at+".gates", at+".partitions.default.limit.algorithm")
		}
	}
}

// pathOf is the path of the ingress that a path lies directly below.
func pathOf(path string) string { return path[:strings.LastIndexByte(path, '.')] }

// begin has a limit whose initialLimit nobody wrote begin between its bounds.
func (l *Limit) begin(path string, written func(path string) bool) {
	if l.Algorithm != "fixed" && l.MinLimit <= l.MaxLimit && !written(path+".initialLimit") {
		l.InitialLimit = min(max(l.InitialLimit, l.MinLimit), l.MaxLimit)
	}
}

// checkLimit checks the relations between the keys of one limit. Fields that do not
// belong to the algorithm are zero.
func checkLimit(v validator, path string, l *Limit) {
	initial, least, most := path+".initialLimit", path+".minLimit", path+".maxLimit"
	if l.MinLimit > l.MaxLimit && l.Algorithm != "fixed" {
		v.relate("must be at most maxLimit", l.MinLimit, least, most)
	} else {
		if l.InitialLimit < l.MinLimit {
			v.relate("must be at least minLimit", l.InitialLimit, initial, least)
		}
		if l.InitialLimit > l.MaxLimit {
			v.relate("must be at most maxLimit", l.InitialLimit, initial, most)
		}
	}
	if l.Algorithm == "vegas" && l.Alpha >= l.Beta {
		v.relate("must be below beta", l.Alpha, path+".alpha", path+".beta")
	}
	if l.Window.Min > l.Window.Max {
		v.relate("must be at most window.max", l.Window.Min, path+".window.min", path+".window.max")
	}
}
