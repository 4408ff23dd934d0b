//go:build !race

package dashboards_test

const raceEnabled = false
