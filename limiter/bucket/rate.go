package bucket

// Bounds that keep arithmetic exact and memory finite, whatever the
// configuration says.
const (
	// MaxCost is the most tokens that one request may cost.
	MaxCost         = 1e9
	maxRate         = 1e9 // tokens per second
	maxBurst        = 1e12
	maxBurstSeconds = 1e6
	maxQueue        = 1_000_000
)

// Rate is a token bucket as an operator writes it.
type Rate struct {
	// PerSecond is tokens per second; 0 = unlimited. At most 1e9.
	PerSecond float64
	// BurstSeconds sets the depth: PerSecond * BurstSeconds tokens, at least
	// 1; 0 = 1 s. At most 1e6.
	BurstSeconds float64
	// QueueDepth is how many requests may borrow a token and wait for it
	// before requests are refused; 0 = refuse at once.
	QueueDepth int
	// Sharers is how many gates are expected to share the rate, this one
	// included: its bucket is then filled by [Bucket.Lease] and [Bucket.Flow].
	// 0 = the rate is this gate's own.
	Sharers int
	// Sharing is what all buckets of rates that this gate shares have in common;
	// nil = nothing.
	Sharing *Sharing
}

// Burst returns the depth in tokens.
func (r Rate) Burst() float64 {
	rate := min(max(r.PerSecond, 0.001), maxRate)
	return min(max(rate*min(r.Seconds(), maxBurstSeconds), 1), maxBurst)
}

// Seconds returns the depth in seconds with its default.
func (r Rate) Seconds() float64 {
	if r.BurstSeconds > 0 {
		return r.BurstSeconds
	}
	return 1
}
