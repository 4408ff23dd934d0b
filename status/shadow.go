package status

import "github.com/admitd/admitd/labels"

// Candidate is what other limits would have done with the requests of an
// ingress. Shares are of the last five minutes, counts of all time since the
// candidate began. Latencies are in milliseconds, from the request to the answer.
type Candidate struct {
	Name    string `json:"name"`
	Ingress string `json:"ingress"`
	// Warming is true until enough was seen of the backend; nothing is counted
	// before.
	Warming bool    `json:"warming"`
	Seconds float64 `json:"seconds"` // that it has played

	Offered    uint64                   `json:"offered"`
	Rejected   map[labels.Reason]uint64 `json:"rejected"`   // without zeros
	ForNothing uint64                   `json:"forNothing"` // of these, the ones that were answered in time in truth

	RejectedShare   float64 `json:"rejectedShare"`   // of what was offered
	ForNothingShare float64 `json:"forNothingShare"` // of what it would have rejected
	EnforcedShare   float64 `json:"enforcedShare"`   // of what was offered, rejected in truth
	P50MS           float64 `json:"p50MS"`           // of what it would have admitted; 0 = nothing
	P99MS           float64 `json:"p99MS"`
	// BeyondShare is the share of what it would have admitted with far more or far
	// less in flight than the backend was seen with: that part is a guess.
	BeyondShare float64 `json:"beyondShare"`
	Limit       int     `json:"limit"` // over all partitions that were used
	InFlight    int     `json:"inFlight"`
	Lost        uint64  `json:"lost"` // records of requests that came too fast to be played
}
