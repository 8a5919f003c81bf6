package nodeid

import (
	"strings"
	"testing"
)

func TestIDs(t *testing.T) {
	for session, want := range map[string][2]string{
		"build-1-abcdefgh.0123":                {"build-1-abcdefgh", "build-1"},
		"a-abcdefgh.0123":                      {"a-abcdefgh", "a"},
		"0b1c7c1e-0000-4000-8000-000000000000": {"", ""},
		"189881b18b39a5b6":                     {"", ""},
		"a80aa1d5-24c1-4f10":                   {"", ""},
		"a-2xu3zdnv.18":                        {"a-2xu3zdnv", "a"},
		"web-1-mkxf7nkh.0f":                    {"web-1-mkxf7nkh", "web-1"},
		"":                                     {"", ""},
	} {
		if node := Of(session); node != want[0] || Name(node) != want[1] {
			t.Errorf("%q is of node %q with the name %q, want %q", session, node, Name(node), want)
		}
	}
	node := New("build-1", "abcdefgh")
	if one, other := Session(node), Session(node); one == other || Of(one) != node || len(one) != len(node)+33 || strings.ToLower(one) != one {
		t.Errorf("sessions %s and %s of %s", one, other, node)
	}
}
