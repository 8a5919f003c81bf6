//go:build race

package slab

// poisoned means: Release wipes a buffer without holders. Then the race detector, and tests that check every
// byte, notice a reader who has released the buffer.
const poisoned = true
