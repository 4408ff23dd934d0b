package status

import "time"

// Explanation is the body of GET /v1/explain/{ingress}/{key}: why the limit of a
// partition is what it is.
type Explanation struct {
	Ingress   string    `json:"ingress"`
	Partition string    `json:"partition"`
	Text      string    `json:"text"` // some sentences
	Limit     int       `json:"limit"`
	InFlight  int       `json:"inFlight"`
	Baseline  *Baseline `json:"baseline,omitempty"` // absent while unknown
	Changes   []Change  `json:"changes"`            // the last of them, the newest first
}

// Baseline is the latency without load, as the limit believes it.
type Baseline struct {
	MS       float64   `json:"ms"`
	Learned  time.Time `json:"learned"`  // when it was last seen to move
	InFlight int       `json:"inFlight"` // requests in flight then
	// Kept says that it was learned in an earlier life of the process, and read
	// from the state file.
	Kept bool `json:"kept,omitempty"`
}

// Change is one time that a limit moved.
type Change struct {
	At      time.Time `json:"at"`
	From    int       `json:"from"`
	To      int       `json:"to"`
	Why     string    `json:"why,omitempty"` // a word of the algorithm's; "" = it was not the algorithm
	Meaning string    `json:"meaning,omitempty"`
	By      string    `json:"by,omitempty"` // what changed it otherwise; "" = it is not known
}

// History is the body of GET /v1/history, by ingress.
type History map[string]IngressHistory

// IngressHistory is what happened in one ingress.
type IngressHistory struct {
	Series

	Partitions map[string]Series `json:"partitions"` // of those that are asked most
}

// Series are figures over time: rates per second, times in milliseconds. A
// column that holds nothing is left out; null is a figure that is not known.
type Series struct {
	At      []int64               `json:"at"` // Unix milliseconds
	Columns map[string][]*float64 `json:"columns"`
}
