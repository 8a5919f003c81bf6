package process

import (
	"testing"
	"unsafe"
)

// A process costs a record for as long as it can be read. Beyond 2,040 bytes the allocator takes
// 2,304 bytes for a record instead of 2,048.
func TestRecordIsSmall(t *testing.T) {
	if size := unsafe.Sizeof(processRecord{}); size > 2040 {
		t.Errorf("a record has %d bytes, want 2,040 at most: what few processes need belongs behind a pointer", size)
	}
}
