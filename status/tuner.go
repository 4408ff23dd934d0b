package status

import "time"

// Tuner is what the tuner does, in short; GET /v1/tuner has all of it.
type Tuner struct {
	Mode     string `json:"mode"`           // off, advise or act
	Hold     string `json:"hold,omitempty"` // why nothing moves at all now
	Policies int    `json:"policies"`
	// Held names the policies that hold still by themselves, for a signal that is
	// not trusted or a lock.
	Held    []string   `json:"held,omitempty"`
	Locked  []string   `json:"locked,omitempty"` // those of them that wait for a person
	ByHand  []string   `json:"byHand,omitempty"` // settings that are left alone until released
	Trials  int        `json:"trials"`           // changes that are being watched
	Changes uint64     `json:"changes"`
	Reverts uint64     `json:"reverts"`        // by itself and by people
	Last    *TunerMove `json:"last,omitempty"` // of its changes, or of what it advised
}

// TunerMove is one decision of the tuner.
type TunerMove struct {
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"` // change, advice, takeBack or revert
	Policy  string    `json:"policy,omitempty"`
	Setting string    `json:"setting"`
	Old     *float64  `json:"old"` // nil = without bound
	New     *float64  `json:"new"`
	Why     string    `json:"why"`
}
