package algorithms

const (
	// plateauShrunk is the share to which a limit must have shrunk before the
	// comparison is worth more than the noise of its windows.
	plateauShrunk = 0.75
	// plateauBroken is how many times slower than at the beginning of the
	// episode a window is that has another cause than the limit.
	plateauBroken = 1.5
	// stuckWindows in a row at the lowest limit make the baseline doubtful: it
	// can then be measured anew without a queue, for the limit is as low as it
	// gets.
	stuckWindows = 5
)

// plateau tells a queue from a backend that has become slower. Of L permits in
// flight at throughput X the latency is L/X. When there is a queue, a smaller
// limit shortens it: latency falls with the limit and throughput stays. When
// there is none, latency stays and throughput falls with the limit, which then
// refuses work for nothing, and the baseline must be measured anew.
//
// It compares windows within one shrinking episode, in which the limit was
// reached in every window. The first window of an episode is left out: whatever
// set it off began in its middle.
//
// The price: a baseline that moves up while a queue hides it is not noticed
// before the queue is gone.
type plateau struct {
	length int     // windows in this episode
	limit  int     // enforced in the window compared with
	rate   float64 // good samples per second in it
	rtt    float64 // ns
	stuck  int     // windows in a row at the lowest limit
	found  uint64
}

// moved adds a window in which before was enforced and that led to after, and
// reports whether the baseline must have moved. low is the lowest limit.
func (p *plateau) moved(s summary, before, after, low int) bool {
	if s.peak < before || after > before || s.good == 0 {
		p.reset()
		return false
	}
	if p.slower(s, before) || p.stuckAt(before, after, low) {
		p.reset()
		p.found++
		return true
	}
	return false
}

// reset ends the episode.
func (p *plateau) reset() { p.length, p.stuck = 0, 0 }

// slower compares the window with the beginning of the episode.
func (p *plateau) slower(s summary, before int) bool {
	rate := float64(s.good) / s.elapsed.Seconds()
	p.length++
	if p.length > 2 && s.rtt > plateauBroken*p.rtt {
		p.length = 2 // the backend changed meanwhile: compare with what it is now
	}
	if p.length <= 2 {
		p.limit, p.rate, p.rtt = before, rate, s.rtt
		return false
	}
	if float64(before) > plateauShrunk*float64(p.limit) {
		return false
	}
	// Latency and throughput as shares of what they were: whichever fell less
	// tells which of them the limit governs.
	latency, throughput := s.rtt/p.rtt, rate/p.rate
	p.length = 0
	return latency > throughput
}

// stuckAt counts windows at the lowest limit.
func (p *plateau) stuckAt(before, after, low int) bool {
	if before > low || after > low {
		p.stuck = 0
		return false
	}
	p.stuck++
	return p.stuck >= stuckWindows
}
