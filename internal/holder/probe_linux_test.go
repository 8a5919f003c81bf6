package holder

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Nothing is missing here: the other tests of holders would fail, too. Whatever is missing is named.
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
	err := Probe()
	if err == nil || !strings.Contains(err.Error(), "this system lacks memory without a name (memfd_create): function not implemented; splice from a terminal: function not implemented") {
		t.Errorf("%v", err)
	}
}
