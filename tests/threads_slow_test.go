//go:build slow

package tests

import "testing"

// TestVeryManyAtOnce does the same with ten times as many.
func TestVeryManyAtOnce(t *testing.T) { testManyAtOnce(t, 1000) }
