//go:build race

package dashboards_test

// raceEnabled: times mean little under the race detector.
const raceEnabled = true
