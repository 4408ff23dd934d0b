package limiter

import "time"

// Witness is told of everything that a policy decides, so that other limits can
// be tried on the same requests. Its methods are called on the request path, by
// many goroutines; they must neither block nor call the gate. A permit is told
// to the witness of the policy that granted it, whatever is in force by then.
type Witness interface {
	// Decided is called once per request, with the gate's clock in monotonic
	// nanoseconds. req has the cost that its shape was seen to have, and no shape.
	Decided(now int64, req Request, v Verdict)
	// Waited is called when a request that [Waits] is admitted or refused, perhaps
	// before Decided has told of the wait; offered is when it was decided. Those
	// that give up are not told.
	Waited(offered, now int64, v Verdict)
	// Ended is as for [Tracer].
	Ended(start, now int64, latency time.Duration, o Outcome)
}

// Verdict is what was decided about a request.
type Verdict uint8

// The verdicts.
const (
	Refused Verdict = iota
	Waits           // for a token or a permit
	Admitted
)

// witnessing tells what was decided.
func (s *partitionSpec) witnessing(now int64, req *Request, waits bool, why cause) {
	v := Refused
	switch {
	case waits:
		v = Waits
	case why == admitted:
		v = Admitted
	}
	told := *req
	told.Shape = nil // is the gate's own, which learns from what is true; the cost has its price already
	s.witness.Decided(now, told, v)
}
