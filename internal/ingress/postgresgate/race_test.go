//go:build race

package postgresgate_test

// raceEnabled tells tests that the race detector is on, which lets pools lose what
// they hold.
const raceEnabled = true
