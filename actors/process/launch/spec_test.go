package launch

import (
	"slices"
	"strings"
	"testing"
)

// A grace of an hour is the longest.
func TestGraceError(t *testing.T) {
	for ms, refused := range map[uint64]bool{0: false, 3_600_000: false, 3_600_001: true} {
		if err := GraceError("killGraceMs", &ms); (err != nil) != refused {
			t.Errorf("%d ms: %v", ms, err)
		}
	}
}

// process/list shows the beginning of long arguments. Empty arguments count, too.
func TestClipArgv(t *testing.T) {
	for _, arg := range []string{strings.Repeat("x", 100_000), strings.Repeat("€", 30_000), "12345678", ""} {
		all := append([]string{"sh"}, slices.Repeat([]string{arg}, 5000)...)
		shown, n := clipArgv(all), 0
		for _, arg := range shown {
			n += len(arg) + 1
		}
		if n < maxArgv || n > maxArgv+len("…")+1 || shown[0] != "sh" || !strings.HasSuffix(shown[len(shown)-1], "…") {
			t.Errorf("%.10q: %d bytes in %d arguments", arg, n, len(shown))
		}
	}
	if shown := clipArgv([]string{"sh", "-c", ""}); len(shown) != 3 {
		t.Errorf("short arguments are shown as %q", shown)
	}
}
