package jail

import (
	"encoding/json"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A path may be long, is in a Failure twice, and may have bytes that JSON writes as six.
func TestReportFits(t *testing.T) {
	for _, c := range []string{"\x01", "\xff", "ä", "x"} {
		path := "/" + strings.Repeat(c, (unix.PathMax-1)/len(c))
		text := Report{Failure: unmountedHelp("mount of "+path, unix.ENOENT, path+" has been moved", unix.ENOENT)}.packet()
		var r Report
		if len(text) > MaxReport {
			t.Errorf("%q: %d bytes", c, len(text))
		}
		if err := json.Unmarshal(text, &r); err != nil || r.Failure.Errno != int(unix.ENOENT) || !strings.HasPrefix(r.Failure.Stage, "mount of /") || !strings.HasPrefix(r.Failure.Text, unix.ENOENT.Error()) {
			t.Errorf("%q: %v, %.100s", c, err, text)
		}
	}
	short := Failure{Stage: StageLimit + " 7", Errno: 1, Text: "a"}
	if got := short.clip(); *got != short {
		t.Errorf("%+v, want %+v", got, short)
	}
}
