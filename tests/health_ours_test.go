package tests

import (
	"fmt"
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

	pid := s.cmd.Process.Pid
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

// TestHeldBackIsNotLate: a program blocked in write because its owner is away does not count as late,
// however long this lasts.
func TestHeldBackIsNotLate(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(knowing)
	token := newToken(t)
	c.start("q", obj{"argv": append(sh("echo first $0; yes | head -c 4000000; echo; echo up; exec sleep 1000"), token), "restart": restart("permanent", 100),
		"ready": obj{"line": "^up$", "timeoutMs": 4000}})
	c.process("q").awaitOutput("stdout", token)
	c.cutRST()
	for i := range 3 { // for longer than that
		s.session(nil).start(fmt.Sprint("r", i), obj{"argv": []string{"sleep", "1000"}, "ready": obj{"line": "never", "timeoutMs": 1600}}).awaitClosed()
	}
	again := s.session(obj{"resumeSessionId": c.sessionID, "resumeFrom": obj{"q": 0}, "capabilities": knowing["capabilities"]})
	q := again.process("q")
	q.awaitOutput("stdout", "\nup\n")
	again.awaitFact("it is ready", func() bool { return len(q.readies) == 1 })
	if len(q.restarts) > 0 || num(q.readies[0]["run"]) != 1 {
		t.Errorf("it was restarted: %s", jsonText(q.restarts))
	}
}
