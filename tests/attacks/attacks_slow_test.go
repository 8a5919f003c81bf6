//go:build slow

package main

import "testing"

// TestShortAttacks makes all short attacks, except those of TestAttacks.
func TestShortAttacks(t *testing.T) {
	makeAttacks(t, func(a *attack) bool { return a.short && !a.smoke })
}
