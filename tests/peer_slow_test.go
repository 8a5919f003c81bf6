//go:build slow

package tests

import "testing"

// TestPeerAtLength plays longPeerFiles.
func TestPeerAtLength(t *testing.T) { testPeer(t, true) }
