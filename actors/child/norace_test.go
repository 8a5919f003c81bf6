//go:build !race

package child

// underRace: see race_test.go.
const underRace = false
