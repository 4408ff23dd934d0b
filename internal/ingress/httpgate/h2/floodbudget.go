package h2

import (
	"time"

	"golang.org/x/net/http2"
)

// What costs patience, and what earns it. A request earns what its reset costs, but
// for one: clients that give up are usual, and clients that do nothing else are not.
const (
	mostPatience = 10_000
	perSecond    = 1000

	earnRequest = 16
	earnData    = 1 // each frame of a body, in either direction, and each earnBytes of it
	earnBytes   = 1 << 10

	costFrame = 1  // PING, PRIORITY, WINDOW_UPDATE and what is not known
	costEmpty = 8  // what should carry something and does not
	costReset = 17 // of a stream, or a request that is none
	costSweep = 32 // what concerns all streams
)

// errTooMuch ends a session whose client does nothing but make work.
const errTooMuch = http2.ConnectionError(http2.ErrCodeEnhanceYourCalm)

// patience bounds what a client may do that brings no request further. It belongs to
// the goroutine that reads.
type floodBudget struct {
	left int
	at   time.Time
}

// begin makes it that of a session that begins.
func (p *floodBudget) begin(now time.Time) { p.left, p.at = mostPatience, now }

// spend reports whether there was as much left.
func (p *floodBudget) spend(cost int) bool {
	p.left -= cost
	return p.left >= 0
}

// worth is what a frame of a body earns. Clients give windows back in pieces of a few
// KiB, to the stream and to the session, and send a PING with what they take.
func worth(size int) int {
	if size == 0 {
		return 0
	}
	return earnData + size/earnBytes
}

// earn is the other way round.
func (p *floodBudget) earn(n int) { p.left = min(p.left+n, mostPatience) }

// pass lets time pass.
func (p *floodBudget) pass(now time.Time) {
	if n := int(now.Sub(p.at) * perSecond / time.Second); n > 0 {
		p.earn(n)
		p.at = now
	}
}
