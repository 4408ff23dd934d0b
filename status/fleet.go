package status

// Fleet is how a gate stands in the group that it shares rates with: the body of
// GET /v1/fleet.
type Fleet struct {
	Group string `json:"group"`
	Gate  string `json:"gate"` // what this gate is called
	ID    string `json:"id"`   // of this process
	// Mode is what the gate goes by: leased, kept (its last share, since the group
	// does not answer), or its fallback.
	Mode     string `json:"mode"`
	Fallback string `json:"fallback"`
	// Problem is why the last call was not answered; "" = it was.
	Problem    string  `json:"problem,omitempty"`
	Gates      int     `json:"gates"` // that there are, or were last, or are expected
	Known      int     `json:"known"` // and those that are expected or fell silent: their part is kept back
	IntervalMS float64 `json:"intervalMS"`
	LeaseMS    float64 `json:"leaseMS"`
	AgeSeconds float64 `json:"ageSeconds"` // since the call that was answered last
	Calls      uint64  `json:"calls"`      // that were answered
	Failures   uint64  `json:"failures"`   // that were not
	CallMS     float64 `json:"callMS"`     // how long the last one took
	// Differs are the rates of this gate's configuration that are not in force,
	// since the group was told others; Pending names those that it has not taken.
	Differs []FleetRate `json:"differs,omitempty"`
	Pending []string    `json:"pending,omitempty"`
	// Members are gates that the group knows, by their last call, at most 200. They
	// are listed while somebody asks.
	Members []FleetGate `json:"members,omitempty"`
	// Quotas are those that are in use at this gate, some of them when there are
	// many.
	Quotas     []FleetQuota `json:"quotas"`
	QuotaCount int          `json:"quotaCount"`
}

// FleetGate is one gate of a group.
type FleetGate struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// FleetRate is a rate of a gate's configuration where the group has another in
// force.
type FleetRate struct {
	Name         string  `json:"name"`
	Override     bool    `json:"override,omitempty"`
	PerSecond    float64 `json:"perSecond"` // in force, tokens per second
	Burst        float64 `json:"burst"`     // in force, tokens
	OwnPerSecond float64 `json:"ownPerSecond"`
	OwnBurst     float64 `json:"ownBurst"`
	By           string  `json:"by"`     // the gate that told what is in force
	Source       string  `json:"source"` // where that gate had it from: file or runtime
	Version      int64   `json:"version"`
}

// FleetQuota is one rate that a group shares.
type FleetQuota struct {
	Name         string  `json:"name"`
	Label        string  `json:"label"`                  // in metrics
	PerSecond    float64 `json:"perSecond"`              // of all gates together, as it is in force in the group
	Share        float64 `json:"share"`                  // of this gate, tokens per second
	Demand       float64 `json:"demand"`                 // at this gate, tokens per second, what is refused included
	Stock        float64 `json:"stock"`                  // tokens that nobody has; negative when more are lent than there are
	Gates        int     `json:"gates"`                  // that use it
	Epoch        string  `json:"epoch"`                  // changes when the group has lost its state
	Mode         string  `json:"mode"`                   // as of the gate, for this quota
	LeaseMS      float64 `json:"leaseMS"`                // left of the lease
	OwnPerSecond float64 `json:"ownPerSecond,omitempty"` // the rate of this gate's configuration, where another is in force
}
