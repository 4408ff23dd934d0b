//go:build !race

package pulsargate_test

const raceEnabled = false
