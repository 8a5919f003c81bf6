//go:build !linux

package testroot

import "testing"

// Confined returns true: only Linux has views.
func Confined(testing.TB) bool { return true }
