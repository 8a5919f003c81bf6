package tests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestProcessesRefused: if the number of processes is limited, the server refuses starts before the
// last processes, because it may need them itself. The error names the limit.
func TestProcessesRefused(t *testing.T) {
	const max = 120
	dir := needs.Controller(t, "pids", fmt.Sprint(max))
	configure := func(cmd *exec.Cmd) { // before the server looks for limits
		cmd.Args = append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
		cmd.Path = "/bin/sh"
	}
	s := &server{program: startTroupe(t, configure, "serve", "--listen", "ws://127.0.0.1:0")}
	t.Cleanup(s.stop)
	s.url = s.firstLine()
	c := s.session(nil)
	token := newToken(t)
	params := func(id string) obj { return startParams(id, obj{"argv": []string{"/bin/sleep", token}}) }

	started, refusal := 0, ""
	for ; started < max && refusal == ""; started++ {
		if answer := c.reply(c.request("process/start", params(nth("p", started)))); answer["error"] != nil {
			refusal = jsonText(answer)
		}
	}
	if want := fmt.Sprintf("limit reached: pids.max in %s is %d, and ", dir, max); started < 20 || !strings.Contains(refusal, want) {
		t.Errorf("start %d was refused with %s, want %q", started, refusal, want)
	}
	for i := range 10 { // the server may have got more threads meanwhile
		c.call("process/terminate", obj{"processId": nth("p", i)})
		c.process(nth("p", i)).awaitClosed()
	}
	c.start("again", obj{"argv": []string{"/bin/sleep", token}})

	// A raised limit counts at once.
	if err := os.WriteFile(filepath.Join(dir, "pids.max"), []byte("200"), 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		c.start(nth("more", i), obj{"argv": []string{"/bin/sleep", token}})
	}
	c.call("session/close", obj{})
	wantNoKin(t, "after session/close", token)
}
