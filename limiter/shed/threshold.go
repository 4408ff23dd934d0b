package shed

// The levels: of each class, 32 cohorts of partitions.
const (
	cohorts = 32
	levels  = Ranks * cohorts
	// grain is the parts of a level: on the very level where the line runs a share
	// is served, so that one large tenant is not switched on and off.
	grain     = 256
	everybody = levels * grain // a line above all
)

// How the line moves.
const (
	adjustEvery = 100e6 // ns between two moves
	// tolerated is the share of those that pass the line that may find no room:
	// less, and the limit is not used; more, and the line does not do its work.
	tolerated = 0.3
	// crowding is how much of that it weighs to be served after a long wait.
	crowding = 0.3
	// slack is how far the rate may be above what passes, which is counted over a
	// short time.
	slack = 1.1
	// rise is how much more may pass after a turn in which everybody found room, and
	// spareRise what comes to that for each part of the limit below wellUsed that is not
	// used: a limit that is raised, or a backend that is well again, is found at once.
	rise      = 0.03
	spareRise = 1.5
	wellUsed  = 0.9
	// useWeight is the weight of a turn in how much of the limit is used.
	useWeight = 0.3
	// minTurn is how many must have passed before their share means anything.
	minTurn = 20
	// quietTurns without anybody shed or short end the watch.
	quietTurns = 10
	// voice is the share of what gets in that a class must ask for to be heard:
	// for less nobody makes way, the places kept free will do.
	minShare = 0.01
)

// thresholdController finds the line above which requests are shed. It is pure arithmetic: it
// is told what happened, and knows no clock. It is used by one goroutine at a
// time.
//
// What it holds is a rate: how many requests may pass. That is what got in when
// the overload began, falls at once by as much as do not find room, and rises
// slowly while they do. The line is then where the histogram of what is offered
// reaches that rate, so that a class which floods moves the line down to itself
// and nobody above it hears of it.
type thresholdController struct {
	offered [levels]float64 // decayed, in requests
	span    float64         // decayed, in ns
	rate    float64         // requests per ns that may pass; 0 = not known yet
	quiet   int             // turns in which nobody was shed or short
	use     float64         // share of the limit that is used, moving average

	passed, short, served, since float64 // since the rate moved last
}

// thresholdSamples is what happened since the last turn.
type thresholdSamples struct {
	span                float64 // ns, > 0
	use                 float64 // share of the limit that is used as of now
	offered             [levels]uint32
	shed, short, served uint32 // of the offered: above the line; without room; served after a wait
}

// turn takes what happened into account and returns the line, and whether the
// overload is over.
func (h *thresholdController) turn(b *thresholdSamples) (line uint32, over bool) {
	total := 0.0
	for i, n := range b.offered {
		h.offered[i] = h.offered[i]/2 + float64(n)
		total += float64(n)
	}
	h.span = h.span/2 + b.span
	h.use += useWeight * (b.use - h.use)
	h.passed += total - float64(b.shed)
	h.short += float64(b.short)
	h.served += float64(b.served)
	h.since += b.span
	h.quiet += max(int(b.span/adjustEvery), 1)
	if b.shed > 0 || b.short > 0 {
		h.quiet = 0
	}
	if h.passed >= minTurn || h.since >= 10*adjustEvery {
		h.adjust()
		h.passed, h.short, h.served, h.since = 0, 0, 0, 0
	}
	return h.line(), h.quiet >= quietTurns
}

// steer moves the rate by the share of those that found no room.
func (h *thresholdController) adjust() {
	if h.passed <= 0 {
		h.rate *= 1 + rise
		return
	}
	lost := max(h.short-h.served, 0) / h.passed
	excess := min(lost+crowding*min(h.served/h.passed, 1)-tolerated, 0.9)
	switch {
	case excess <= 0:
		h.rate = min(h.rate*(1-rise*excess/tolerated+spareRise*max(wellUsed-h.use, 0)), 2*h.sum()/h.span)
	case h.rate == 0:
		h.rate = max(h.passed-h.short+h.served, 1) / h.since
	default: // a little may be chance, much is not
		h.rate = min(h.rate, slack*h.passed/h.since) * (1 - excess*min(0.4+2*excess, 1))
	}
}

// sum is what is offered.
func (h *thresholdController) sum() (n float64) {
	for _, x := range h.offered {
		n += x
	}
	return n
}

// line returns where the histogram reaches the rate. The first class that asks
// at all is never shed: there is nobody to make way for.
func (h *thresholdController) line() uint32 {
	if h.rate == 0 {
		return everybody
	}
	room, served := h.rate*h.span, 0.0
	line := uint32(everybody)
	for i, n := range h.offered {
		if served+n > room {
			line = uint32(i)*grain + uint32(grain*max(room-served, 0)/n)
			break
		}
		served += n
	}
	for r := range uint32(Ranks) {
		class := 0.0
		for _, n := range h.offered[r*cohorts : (r+1)*cohorts] {
			class += n
		}
		if class > minShare*room {
			return max(line, (r+1)*cohorts*grain)
		}
	}
	return line
}
