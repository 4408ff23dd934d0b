package algorithms

// change is the last time that a limit moved.
type change struct {
	at       int64 // monotonic ns
	from, to int
	why      string
}

// note remembers a change.
func (c *change) note(now int64, from, to int, why string) {
	if from != to {
		*c = change{now, from, to, why}
	}
}
