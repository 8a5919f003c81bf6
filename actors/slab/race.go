//go:build race

package slab

// poisoned: what is released is wiped, so that the tests, which check every byte that
// comes, and the race detector see who still reads it.
const poisoned = true
