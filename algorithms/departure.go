package algorithms

import "time"

// Left is told of a caller that went away at now, monotonic nanoseconds, when
// its permit was age old, while the backend still works: the latency is censored
// at age, it will be at least that. inFlight is as for [Window.Observe].
//
// A departure younger than the latency measured in the window before teaches
// nothing. It tells of the caller's patience and not of the backend, and an age
// below the mean would pull the mean down: whoever is in a hurry would make a
// slow backend look fast to a formula with a baseline, and a healthy one look
// overloaded to a formula with a target. An older one is a sample of its age. As
// the latency T of that request is at least its age a, min(T, a) = a never
// overstates it, so that the mean of a window with departures never exceeds the
// mean of the latencies that it stands for, each request counted as often as it
// was heard of; and since a is at least the mean measured before, it corrects
// that mean towards the truth. (Of an exponential T the mean left after age a
// is a + E[T]: the sample is still short of it by one mean.) When the backend
// answers in the end, its latency is a sample like any other.
func (w *Window) Left(now int64, age time.Duration, inFlight int) {
	if measured := w.measured.Load(); measured == 0 || int64(age) < measured {
		w.impatient.Add(1)
		return
	}
	w.Observe(now, age, inFlight, false)
}
