package clock

// Step does once what [Guard.Run] does ten times a second. It is for programs
// that play time themselves, such as simulations: they bring [Sources], call
// Step every 100 ms of their time, and never call Run. The first Step takes the
// first look. Not safe for concurrent use with itself.
//
// One goroutine drives it, so it does not compare the clock across processors.
func (g *Guard) Step() {
	if !g.stepped {
		g.stepped = true
		g.checkSource()
		g.judge(g.steps(startReads))
		g.seen.last, _ = readAll(g.Now, g.o.Sources)
		g.settle()
		return
	}
	g.tick()
}
