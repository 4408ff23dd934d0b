//go:build !race

package postgresgate_test

const raceEnabled = false
