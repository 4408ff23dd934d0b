package knee

import "math"

// window is one closed window. Times are nanoseconds, rates per nanosecond.
type window struct {
	now                       int64
	elapsed                   float64
	calm, busy, dropped, peak int
	latency, held             float64 // sums over calm and busy samples
	calmLatency, calmHeld     float64 // sums over calm samples
	offered, refused          float64
	watched                   bool
	left                      windowDepartures
}

func (w *window) count() float64 { return float64(w.calm + w.busy) }

func (w *window) rate() float64 { return w.count() / math.Max(w.elapsed, 1) }

func (w *window) mean() float64 { return w.latency / math.Max(w.count(), 1) }

// waitedFor is the share of the demand that a full limit stands for where requests
// wait instead of being refused: enough to look for a queue.
const waitedFor = 0.05

// share is the part of the demand that was refused, or had to wait where it is queued.
func (w *window) share(limit float64, queued bool) float64 {
	switch {
	case w.watched:
		share := math.Min(w.refused/math.Max(w.offered, 1), 1)
		if queued && float64(w.peak) >= math.Floor(limit) && w.held >= 0.9*limit*w.count() {
			share = math.Max(share, waitedFor)
		}
		return share
	case float64(w.peak) < math.Floor(limit):
		return 0
	case w.held < 0.9*limit*w.count():
		return 0.01
	default:
		return 0.5
	}
}

// steady reports that what came back can have been in flight in this window: by
// Little's law that is no more than the peak, on average. After a stop of the backend
// it is much more, and says how long the stop was.
func (w *window) steady() bool { return w.latency <= 1.5*float64(w.peak)*w.elapsed }

// fade is what is left of something after so long that is forgotten over a time, in
// (0, 1]: never 0, since what rises by 1/fade must stay finite after a month of
// silence.
func fade(elapsed, over float64) float64 { return math.Exp(-math.Min(elapsed/over, 60)) }

// crossed reports that the window crossed a moment, of those that are every so
// many nanoseconds from the common zero.
func (w *window) crossed(every, epoch int64) bool {
	end := w.now + epoch
	return end/every != (end-int64(w.elapsed))/every
}

// pace is when the next window closes, and which of its samples are calm ones.
type pace struct {
	span  int64 // ns that it gathers at least
	quota int64 // samples that it needs
	calm  int64 // in flight up to which a sample is a calm one
}

// recalm moves the bound of calm samples to where a quarter of them is below it.
func (p *pace) recalm(w *window) {
	if w.count() < 8 {
		return
	}
	step := max(1, p.calm/6)
	switch part := float64(w.calm) / w.count(); {
	case part < 0.15:
		p.calm = min(p.calm+step, int64(w.held/w.count())+1)
	case part > 0.4:
		p.calm = max(1, p.calm-step)
	}
}
