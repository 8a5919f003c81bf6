package tests

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestProbesWithoutDescriptors: a server without descriptors for its probes does not count the program
// as dead, reports the reason, and probes again when descriptors are free.
func TestProbesWithoutDescriptors(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	count := filepath.Join(t.TempDir(), "probes")
	probed := func() int64 {
		info, err := os.Stat(count)
		if err != nil {
			return 0
		}
		return info.Size()
	}
	c.start("p", obj{"argv": []string{"sleep", "1000"}, "restart": restart("permanent", 100),
		"liveness": obj{"probe": obj{"argv": append(sh(`echo >>$0`), count), "everyMs": 20, "failures": 2}}})
	more := func(what string) {
		t.Helper()
		then := probed()
		eventually(t, what, func() bool { return probed() > then+2 })
	}
	more("it is probed")

	pid := s.pid()
	var limit unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &limit); err != nil {
		t.Fatal(err)
	}
	less := limit
	less.Cur = 3
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &less, nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "process/info says that the server cannot probe", func() bool {
		text, _ := c.call("process/info", obj{"processId": "p"})["probeError"].(string)
		return text != ""
	})
	eventually(t, "the log does", func() bool { return strings.Contains(s.stderr.String(), "cannot probe") })
	for range 50 { // requests, while more probes fail
		if info := describe(t, c, "p"); info["state"] != "running" || num(info["run"]) != 1 {
			t.Fatalf("without descriptors it is %s", jsonText(info))
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &limit, nil); err != nil {
		t.Fatal(err)
	}
	more("it is probed again")
	if info := c.call("process/info", obj{"processId": "p"}); num(info["run"]) != 1 || info["probeError"] != nil {
		t.Errorf("it is %s", jsonText(info))
	}
}
