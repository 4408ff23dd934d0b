package client

import "time"

// hintSlack is how far a server's hint may stretch a wait.
const hintSlack = 5 * time.Second

// Seed returns the policy as it was first specified: 5 retries, a wait of
// jitter * min(10 s, 100 ms * 2^(attempt-1)), servers that refused are avoided.
// The retry budget of 1000 tokens, 0.1 earned per success, is there and
// switched off; set AdaptiveRetries.
func Seed() Policy {
	return Policy{
		MaxRetries: 5, OtherRetries: 1,
		Backoff:    Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second},
		HintSlack:  hintSlack,
		RetryReads: true, RetryWrites: true, Retarget: true,
		BudgetCapacity: 1000, BudgetReturn: 0.1,
	}
}

// Driver returns the policy that released MongoDB drivers follow: 2 retries, a
// wait of jitter * min(10 s, base * 2^attempt) where the server may replace the
// base of 100 ms. It is the default of [Options]. Drivers have no retry budget;
// set AdaptiveRetries to have the seed's.
func Driver() Policy {
	p := Seed()
	p.MaxRetries = 2
	p.Backoff = Exponential{Base: 100 * time.Millisecond, Max: 10 * time.Second, Shift: 1}
	p.ServerBase = true
	p.Retarget = false
	return p
}

// SlowDownOptions are the settings of [SlowDown]. The zero value means the
// defaults. To have no jitter, or no retries, change the policy afterwards.
type SlowDownOptions struct {
	Initial    time.Duration // first interval; default 100 ms
	Retries    int           // default 6
	Multiplier float64       // growth of the interval, >= 1; default 2
	Jitter     time.Duration // most that is added to the interval at random; default 100 ms
	Max        time.Duration // most that the interval grows to; default 3 s
}

// SlowDown returns the policy of the slow-down-and-retry design: the client
// waits interval + random(0, jitter) before every retry, whatever the failure
// was, and the interval grows up to a bound.
func SlowDown(o SlowDownOptions) Policy {
	if o.Initial == 0 {
		o.Initial = 100 * time.Millisecond
	}
	if o.Retries == 0 {
		o.Retries = 6
	}
	if o.Multiplier == 0 {
		o.Multiplier = 2
	}
	if o.Jitter == 0 {
		o.Jitter = 100 * time.Millisecond
	}
	if o.Max == 0 {
		o.Max = 3 * time.Second
	}
	p := Seed()
	p.MaxRetries, p.OtherRetries = o.Retries, o.Retries
	p.Backoff = Interval{Initial: o.Initial, Multiplier: o.Multiplier, Jitter: o.Jitter, Max: o.Max}
	p.BackoffAlways = true
	return p
}

// Handshake returns the field by which a client of this policy announces, in
// the handshake of protocols that have one, that it obeys rejections: the key
// "backpressure" with true, or with the string "2", which is what drivers send
// that also obey the server's baseBackoffMS. HTTP has no handshake; see
// [Transport].
func (p *Policy) Handshake() (key string, value any) {
	if p.ServerBase {
		return "backpressure", "2"
	}
	return "backpressure", true
}
