//go:build slow

package tests

import "testing"

// TestSlowScripts runs the scripts that move much.
func TestSlowScripts(t *testing.T) { runScripts(t, "testdata/script/slow") }
