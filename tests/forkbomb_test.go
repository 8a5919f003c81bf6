//go:build slow

package tests

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// bomb forks until fork fails, prints this, and tries again for some seconds.
const bomb = `$| = 1;
for (1 .. 2000) {
	my $pid = fork();
	if (!defined $pid) { print "full\n" unless $full++; select undef, undef, undef, 0.01 }
	elsif (!$pid) { exec "/bin/sleep", @ARGV; exit }
}
sleep 1000`

// TestForkBomb: a fork bomb takes every process allowed for programs, and leaves the server its own
// share. The server answers other clients, makes threads for calls that hang, and ends the bomb.
func TestForkBomb(t *testing.T) {
	perl := needs.Program(t, "perl")
	for _, containment := range []string{"cgroup", "marker"} {
		t.Run(containment, func(t *testing.T) {
			hanging := []*hangfs.FS{hangfs.Mount(t, nil), hangfs.Mount(t, nil)} // a filesystem gets half of the turns for calls
			dir := needs.Controller(t, "pids", "200")
			inside := func(cmd *exec.Cmd) {
				cmd.Args = append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(dir, "cgroup.procs"), cmd.Path}, cmd.Args[1:]...)
				cmd.Path = "/bin/sh"
			}
			s := &server{program: startTroupe(t, inside, "serve", "--listen", "ws://127.0.0.1:0", "--containment", containment)}
			t.Cleanup(s.stop)
			for _, fs := range hanging {
				t.Cleanup(fs.Free)
			}
			s.url = s.firstLine()
			c, other := s.session(nil), s.session(nil)
			info := c.call("server/info", obj{})
			if limit := num(info["childLimit"]); limit < 80 || limit > 160 || info["notes"] != nil {
				t.Errorf("server/info tells %v, %v", info["childLimit"], info["notes"])
			}
			token := newToken(t)
			c.start("bomb", obj{"argv": []string{perl, "-e", bomb, token}}).awaitOutput("stdout", "full\n")

			for i := range 16 {
				other.request("fs/getMetadata", obj{"path": "file://" + hanging[i%2].Path(fmt.Sprintf("hang%d", i))})
			}
			eventually(t, "all hang", func() bool { return hanging[0].Hanging()+hanging[1].Hanging() == 16 })
			if text := jsonText(other.reply(other.request("process/start", startParams("x", obj{"argv": sh("exit 0")})))); !strings.Contains(text, "limit reached: ") {
				t.Errorf("a start is answered with %s", text)
			}
			other.call("process/list", obj{})
			c.call("session/close", obj{})
			wantNoKin(t, "after session/close", token)
			third := s.session(nil)
			eventually(t, "init has reaped the bomb", func() bool {
				return third.reply(third.request("process/start", startParams("fine", obj{"argv": sh("exit 0")})))["error"] == nil
			})
			third.process("fine").awaitClosed()
		})
	}
	if left, _ := filepath.Glob("/sys/fs/cgroup/pids/troupe-test-*"); len(left) > 1 {
		t.Errorf("%q are left", left)
	}
}
