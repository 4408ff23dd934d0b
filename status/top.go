package status

// Top is the body of GET /v1/top: who makes the load, by ingress and by kind
// (client, application, user, operation). Kinds of which nothing is known are
// left out.
type Top map[string]map[string][]Asker

// Asker is one of those who ask an ingress. Rates are per second, over about the
// last half minute; the newest seconds weigh most.
type Asker struct {
	Name     string  `json:"name"`
	Received float64 `json:"received"`
	Refused  float64 `json:"refused"` // of these
	// Over is by how much Received may be too high, since more askers came than
	// are told apart; 0 = it is what was counted.
	Over float64 `json:"over,omitempty"`
}
