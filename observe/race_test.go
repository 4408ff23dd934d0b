//go:build race

package observe_test

// raceEnabled tells tests that measure time that the race detector is on.
const raceEnabled = true
