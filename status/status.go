// Package status is the one document that says what a daemon does: [Document],
// which admin writes at GET /v1/status and top and the live page read. It holds
// types only, so that a reader depends on nothing else. A field is added, never
// renamed: what reads it may be older or newer than the daemon.
package status

import (
	"time"

	"github.com/admitd/admitd/labels"
)

// Document is the body of GET /v1/status: what exists at one moment.
type Document struct {
	Version       string    `json:"version"`
	At            time.Time `json:"at"`
	UptimeSeconds float64   `json:"uptimeSeconds"`
	Draining      bool      `json:"draining"`
	Clock         Clock     `json:"clock"`
	Config        Config    `json:"config"`
	Ingresses     []Ingress `json:"ingresses"`
	// Reasons are all that a refusal may have, so that a reader needs no list of
	// its own.
	Reasons []Reason `json:"reasons"`
	// Shadow are the candidates: limits that decide on the same requests and
	// refuse nobody.
	Shadow []Candidate `json:"shadow,omitempty"`
	Tuner  *Tuner      `json:"tuner,omitempty"` // nothing without signals and policies
	Fleet  *Fleet      `json:"fleet,omitempty"` // nothing without a group
	Marks  []Mark      `json:"marks,omitempty"` // what was done to them of late
}

// Reason is why a request may be refused.
type Reason struct {
	Name  string `json:"name"`  // as in counts, metrics and refusals
	Words string `json:"words"` // the same for a person
}

// Ingress is one ingress with its gate.
type Ingress struct {
	Name     string    `json:"name"`
	Protocol string    `json:"protocol"`
	Listen   string    `json:"listen"`
	Backend  string    `json:"backend"`
	Mode     string    `json:"mode"`
	ETag     string    `json:"etag,omitempty"` // of its settings, for If-Match
	Draining bool      `json:"draining"`
	Fallback bool      `json:"fallback"`
	Verdict  Verdict   `json:"verdict"`
	Forecast string    `json:"forecast,omitempty"` // what would be without the gate, in a sentence
	Backends []Backend `json:"backends,omitempty"`
	InFlight int       `json:"inFlight"`
	Queued   int       `json:"queued"`
	Total    int       `json:"total"` // bound on permits, 0 = none
	P50MS    float64   `json:"p50MS"` // latency over the last seconds, in milliseconds; 0 = unknown
	P99MS    float64   `json:"p99MS"`
	// GateP50MS and GateP99MS are what the gate itself took of requests over the
	// last seconds, without the backend and without waiting, in milliseconds; 0 =
	// unknown: it is measured for HTTP only, on a sample.
	GateP50MS   float64      `json:"gateP50MS,omitempty"`
	GateP99MS   float64      `json:"gateP99MS,omitempty"`
	Requests    *Bucket      `json:"requests,omitempty"`
	Connections *Connections `json:"connections,omitempty"`
	Counts      Counts       `json:"counts"` // over all partitions
	// Responses are the backend's answers, by class: 2xx to 5xx, or ok and error; without
	// zeros. Invalid are the requests that the gate answered by itself because they
	// cannot be forwarded, by status; without zeros.
	Responses map[string]uint64 `json:"responses,omitempty"`
	Invalid   map[string]uint64 `json:"invalid,omitempty"`
	// Limit adds the limits of all partitions up that were asked, listed or not,
	// bounded by Total; 0 = none was.
	Limit int `json:"limit"`
	// BaseRTTMS is the latency without load over all of them, in milliseconds,
	// weighted by what they are asked; 0 = unknown.
	BaseRTTMS float64 `json:"baseRTTMS"`
	// Classes are who goes first; nil where all requests are equal.
	Classes *Classes `json:"classes,omitempty"`
	// Top is who makes the load, by kind, the first three of each; more are at
	// /v1/top.
	Top map[string][]Asker `json:"top,omitempty"`
	// Shapes are those that took most of the backend's time, at most 20, the
	// greatest first; none where nothing is learned of them.
	Shapes []Shape `json:"shapes,omitempty"`
	// Partitions are those of the configuration, and some of clients' keys:
	// those that are asked most unless others were asked for.
	Partitions []Partition `json:"partitions"`
	// PartitionCount is how many exist, listed or not.
	PartitionCount int `json:"partitionCount"`
	Details        any `json:"details,omitempty"`
}

// Verdict is how an ingress is, in the daemon's words.
type Verdict struct {
	Condition string `json:"condition"` // a word of a closed set
	Level     string `json:"level"`     // ok, warn, bad; "" = nothing to judge
	Text      string `json:"text"`      // a sentence or two
	Told      string `json:"told"`      // the same without figures
}

// Classes are what becomes of the classes of an [Ingress].
type Classes struct {
	// Threshold is the last of 128 levels that is wholly served, 32 for each class; 127 =
	// nobody is shed.
	Threshold int          `json:"threshold"`
	Unknown   uint64       `json:"unknown"` // requests that named a class which there is not
	Counts    []ClassCount `json:"counts"`  // the most important first
}

// ClassCount counts one class; each only grows.
type ClassCount struct {
	Class    string `json:"class"`
	Admitted uint64 `json:"admitted"`
	Rejected uint64 `json:"rejected"` // otherwise than by shedding
	Shed     uint64 `json:"shed"`
	Exempted uint64 `json:"exempted"`
}

// Shape is what requests have in common that ask for the same with other values.
type Shape struct {
	Name    string  `json:"name"`
	Ended   uint64  `json:"ended"`
	Refused uint64  `json:"refused"` // because it takes too much
	MeanMS  float64 `json:"meanMS"`  // at the backend, of late
	Share   float64 `json:"share"`   // of the time that all took, 0 to 1
	Bytes   uint64  `json:"bytes"`
	Cost    float64 `json:"cost"` // tokens
}

// Mark is something that somebody did, to be seen in the charts.
type Mark struct {
	At      time.Time `json:"at"`
	Ingress string    `json:"ingress,omitempty"` // "" = all
	Text    string    `json:"text"`
}

// Backend is one backend of an [Ingress].
type Backend struct {
	Address  string            `json:"address"`
	State    string            `json:"state"`              // unknown, up, slow, failing, down
	Since    time.Time         `json:"since,omitzero"`     // of the last change
	Cause    string            `json:"cause,omitempty"`    // of the last failure
	LastFail time.Time         `json:"lastFail,omitzero"`  // when that was
	Failures map[string]uint64 `json:"failures,omitempty"` // by cause, without zeros
}

// Bucket holds the tokens of a rate.
type Bucket struct {
	Rate         float64 `json:"rate"` // per second
	BurstSeconds float64 `json:"burstSeconds"`
	Burst        float64 `json:"burst"`
	Tokens       float64 `json:"tokens"`
	QueueDepth   int     `json:"queueDepth"`
	Waiting      int     `json:"waiting"`
}

// Connections are those of one ingress's clients.
type Connections struct {
	Open     int64             `json:"open"`
	Waiting  int64             `json:"waiting"`
	MaxOpen  int64             `json:"maxOpen"`
	Accepted uint64            `json:"accepted"`
	Rejected map[string]uint64 `json:"rejected"`
	Tokens   *float64          `json:"tokens,omitempty"`
}

// Partition is one partition of an [Ingress]. Latencies are in milliseconds.
type Partition struct {
	Name      string             `json:"name"`
	Label     string             `json:"label"`         // as metrics carry it
	Key       bool               `json:"key,omitempty"` // it stands for a client's key
	Algorithm string             `json:"algorithm"`
	Limit     int                `json:"limit"`
	InFlight  int                `json:"inFlight"`
	Abandoned int                `json:"abandoned"` // of these, the ones whose callers have gone
	Wasted    float64            `json:"wasted"`    // share of the work done that was for nobody, 0 to 1
	Queued    int                `json:"queued"`
	BaseRTTMS float64            `json:"baseRTTMS"`         // 0 = unknown
	Why       string             `json:"why,omitempty"`     // why the limit last changed
	Explain   string             `json:"explain,omitempty"` // the same in sentences; more at /v1/explain
	Fallback  bool               `json:"fallback"`
	Requests  *Bucket            `json:"requests,omitempty"`
	State     map[string]float64 `json:"state,omitempty"`
	Counts    Counts             `json:"counts"`
}

// Counts are what has happened since the start; each only grows.
type Counts struct {
	Received    uint64                   `json:"received"`
	Admitted    uint64                   `json:"admitted"`
	Exempted    uint64                   `json:"exempted"`
	GaveUp      uint64                   `json:"gaveUp"`    // while they waited
	Abandoned   uint64                   `json:"abandoned"` // while the backend worked
	Dropped     uint64                   `json:"dropped"`
	Failed      uint64                   `json:"failed"`    // got no answer from the backend; of a partition: dropped
	Succeeded   uint64                   `json:"succeeded"` // answered
	BusyMS      float64                  `json:"busyMS"`    // time that those took, added up
	Waits       uint64                   `json:"waits"`     // admitted after a wait in the gate
	WaitedMS    float64                  `json:"waitedMS"`  // time of these waits, added up
	Ignored     uint64                   `json:"ignored"`
	Rejected    map[labels.Reason]uint64 `json:"rejected,omitempty"`    // without zeros
	WouldReject map[labels.Reason]uint64 `json:"wouldReject,omitempty"` // without zeros
	Discarded   map[string]uint64        `json:"discarded,omitempty"`   // without zeros
}

// Clock is how the clock guard judges the clock.
type Clock struct {
	Trusted bool              `json:"trusted"`
	Mode    string            `json:"mode,omitempty"` // auto, fixed or off
	Detail  string            `json:"detail,omitempty"`
	Faults  map[string]uint64 `json:"faults,omitempty"`
}

// Config is how the configuration came into force.
type Config struct {
	Path           string    `json:"path,omitempty"`
	LastSuccess    time.Time `json:"lastSuccess,omitzero"`
	LastSuccessful bool      `json:"lastSuccessful"`
	Problems       []string  `json:"problems,omitempty"` // of the last refused one
	Changed        int       `json:"changed"`            // settings that were changed at run time, overrides among them
}
