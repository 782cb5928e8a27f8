//go:build race

package views

// raceEnabled tells that sync.Pool forgets at random, so that reads allocate.
const raceEnabled = true
