package estate

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/testholder"
)

// Nothing is missing here: the other tests of holders would fail, too. Whatever is missing is named, and no estate is made.
func TestProbe(t *testing.T) {
	if err := Probe(); err != nil {
		t.Error(err)
	}
	all := probes
	probes = slices.Clone(probes)
	defer func() { probes = all }()
	for i := range probes {
		if strings.HasPrefix(probes[i].what, "splice from a terminal") || strings.HasPrefix(probes[i].what, "memory") {
			probes[i].try = func() error { return unix.ENOSYS }
		}
	}
	h := testholder.New(t)
	_, err := Open(h, h.Next(), 16<<20, nil)
	if err == nil || !strings.Contains(err.Error(), "this system lacks memory without a name (memfd_create): function not implemented; splice from a terminal: function not implemented") {
		t.Errorf("%v", err)
	}
	if len(h.Next()) > 0 {
		t.Error("the holder keeps something")
	}
}
