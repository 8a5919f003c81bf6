//go:build slow

package tests

import "testing"

// TestTranscriptOfPings does with keepalive what TestTranscripts does with the others.
func TestTranscriptOfPings(t *testing.T) { testTranscripts(t, true) }
