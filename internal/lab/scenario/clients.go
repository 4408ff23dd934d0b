package scenario

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/client"
	"github.com/admitd/admitd/labels"
)

// naivePause is what a naive client waits before a retry, up to as much again at
// random: without a pause, retries without bound would stop time.
const naivePause = 50 * time.Millisecond

// ClientSpec says what clients do with failures.
type ClientSpec struct {
	// Policy is none (no retry), naive (retries every failure after 50 to 100 ms,
	// whatever the labels say), seed, driver or slowdown: those of the client room.
	Policy string `yaml:"policy"`
	// Retries bounds those of naive; negative = until the deadline.
	Retries int `yaml:"retries"`
	// Budget gives the clients one retry budget.
	Budget bool `yaml:"budget"`
	// Patience of the clients with one attempt; none = the timeout.
	Patience PatienceSpec `yaml:"patience"`
	// TellDeadline says that clients send their patience along, so that nobody
	// waits in the gate for longer.
	TellDeadline bool `yaml:"tellDeadline"`
	// Deadline of a request, over all its attempts; 0 = none.
	Deadline Duration `yaml:"deadline"`
}

// ClientPolicy returns the policy that c names, with its jitter from random; nil =
// a generator of its own.
func (c *ClientSpec) ClientPolicy(random func() float64) (client.Policy, error) {
	var p client.Policy
	switch c.Policy {
	case "", "none":
	case "naive":
		p = client.Policy{
			MaxRetries: max(c.Retries, 0), OtherRetries: c.Retries, RetryReads: true, RetryWrites: true,
			Backoff: client.Interval{Initial: naivePause, Multiplier: 1, Jitter: naivePause, Max: naivePause}, BackoffAlways: true,
		}
	case "seed":
		p = client.Seed()
	case "driver":
		p = client.Driver()
	case "slowdown":
		p = client.SlowDown(client.SlowDownOptions{})
	default:
		return p, fmt.Errorf("clients.policy must be none, naive, seed, driver or slowdown (%s)", c.Policy)
	}
	if c.Policy == "naive" && c.Retries < 0 && c.Deadline <= 0 {
		return p, fmt.Errorf("clients.deadline must be > 0 where retries have no bound (%d)", c.Retries)
	}
	p.AdaptiveRetries = c.Budget
	if c.Budget && p.BudgetCapacity == 0 {
		return p, fmt.Errorf("clients.budget needs a policy that has one (%s)", c.Policy)
	}
	p.Rand = random
	return p, p.Validate()
}

// Refused returns what a client makes of a refusal.
func (c *ClientSpec) Refused(doc *labels.Document) client.Failure {
	if c.Policy == "naive" || doc == nil {
		return client.Failure{Transient: true} // it cannot read, and simply tries again
	}
	return *client.FromDocument(doc, nil)
}

// Lost returns what a client makes of a timeout. Only a naive one sends again
// what may have been done.
func (c *ClientSpec) Lost() client.Failure {
	return client.Failure{Transient: c.Policy == "naive" || c.Policy == "slowdown"}
}
