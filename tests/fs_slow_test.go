//go:build slow

package tests

import (
	"testing"
)

// TestFilesInLargeBlocks is TestFilesInBlocks with a file larger than the server's memory for a connection. The server does not grow.
func TestFilesInLargeBlocks(t *testing.T) {
	t.Parallel()
	if grown := filesInBlocks(t, 1<<20); grown > 100<<20 {
		t.Errorf("the server has grown by %d MiB", grown>>20)
	}
}
