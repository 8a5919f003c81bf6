//go:build race

package child

// underRace: this program has the race detector, and takes several times the memory.
const underRace = true
