package tests

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// tellLimits is a script in which a program and a descendant print their limits.
const tellLimits = `for p in $$ self; do
	cat /proc/$p/limits
	echo "nice level 0 $(cut -d ' ' -f 19 /proc/$p/stat)"
	echo "score adj 0 $(cat /proc/$p/oom_score_adj)"
done`

// limitsIn parses the output of tellLimits: for each process the soft and hard limit by name. The limits of file locks and of
// realtime are left out, because the server uses these limits as tags, different for each program.
func limitsIn(output string) (all []map[string]string) {
	for line := range strings.Lines(strings.ReplaceAll(output, "\r", "")) {
		f := strings.Fields(line)
		if f[0] == "Limit" {
			all = append(all, map[string]string{})
			continue
		}
		i := slices.IndexFunc(f, func(s string) bool { return s == "unlimited" || strings.Trim(s, "0123456789") == "" })
		if name := strings.Join(f[:i], " "); name != "Max file locks" && name != "Max realtime timeout" {
			all[len(all)-1][name] = f[i] + " " + f[i+1]
		}
	}
	return all
}

// hardLimit returns a limit that programs of the test may not exceed.
func hardLimit(t *testing.T, resource int) uint64 {
	t.Helper()
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		t.Fatal(err)
	}
	return limit.Max
}

// TestLimits: a program has each requested limit, its descendants inherit the limit, and nothing else
// differs from a program without limits.
func TestLimits(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(nil)
	told := func(id string, params obj) []map[string]string {
		script := tellLimits
		if limits, _ := params["limits"].(obj); limits["oomScoreAdj"] != nil { // on a server that is not root, it may come after the start
			script = fmt.Sprintf("until [ $(cat /proc/self/oom_score_adj) = %d ]; do sleep 0.01; done\n", limits["oomScoreAdj"]) + script
		}
		params["argv"] = sh(script)
		p := c.start(id, params)
		if code, _ := p.awaitClosed(); code != 0 {
			t.Fatalf("%s: exit code %d: %s", id, code, p.outputSoFar("stderr"))
		}
		all := limitsIn(p.outputSoFar("stdout") + p.outputSoFar("pty"))
		if len(all) != 2 {
			t.Fatalf("%s: two processes were to speak, %d did", id, len(all))
		}
		return all
	}
	plain := told("plain", obj{})[0]
	hard := hardLimit(t, unix.RLIMIT_NPROC)
	processes := min(12345, hard)
	const ofProcesses = "Max processes"
	// Just after the start of a program, a server of an ordinary user lowers this limit, to keep some processes for itself.
	lowered := os.Geteuid() != 0
	if lowered {
		plain[ofProcesses] = fmt.Sprint(hard, " ", hard)
	}
	for _, test := range []struct {
		limits     obj
		name, want string
	}{
		{obj{"nofile": 123}, "Max open files", "123 123"},
		{obj{"cpuSeconds": 100}, "Max cpu time", "100 101"},
		{obj{"addressSpaceBytes": 1 << 30}, "Max address space", "1073741824 1073741824"},
		{obj{"processes": processes}, ofProcesses, fmt.Sprint(processes, " ", processes)},
		{obj{"coreBytes": 4096}, "Max core file size", "4096 4096"},
		{obj{"fileSizeBytes": 5000}, "Max file size", "5000 5000"},
		{obj{"nice": 19}, "nice level", "0 19"}, // allowed to every user, however nice the test
		{obj{"oomScoreAdj": 321}, "score adj", "0 321"},
		{obj{}, "score adj", plain["score adj"]},
	} {
		want := maps.Clone(plain)
		if _, ok := want[test.name]; !ok {
			t.Fatalf("%s is not in %v", test.name, plain)
		}
		want[test.name] = test.want
		for _, tty := range []bool{false, true} {
			for i, got := range told(fmt.Sprint(test.limits, tty), obj{"limits": test.limits, "tty": tty}) {
				if lowered {
					var n, most uint64
					fmt.Sscan(got[ofProcesses], &n)
					if fmt.Sscan(want[ofProcesses], &most); n <= most {
						got[ofProcesses] = want[ofProcesses]
					}
				}
				if !maps.Equal(got, want) {
					t.Errorf("%v, tty %v, process %d has\n\t%v, want\n\t%v", test.limits, tty, i, got, want)
				}
			}
		}
	}
}

// TestLimitsReached: the kernel stops a program over a limit with a signal.
func TestLimitsReached(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	params := obj{"argv": sh(`exec head -c 100000 /dev/zero >` + file), "limits": obj{"fileSizeBytes": 5000, "coreBytes": 0}}
	wantSignal(t, startServer(t).session(nil).start("file", params), "SIGXFSZ")
	if info, err := os.Stat(file); err != nil || info.Size() != 5000 {
		t.Errorf("the file has %v, %v; want 5000 bytes", info, err)
	}
}

// wantSignal waits for the exit of a program that a signal ends, for no other reason, and returns the processor time that it used.
func wantSignal(t *testing.T, p *proc, signal string) (usedMs int64) {
	t.Helper()
	exited := p.awaitExit()
	if exited["signal"] != signal || exited["reason"] != nil || exited["oomKilled"] != nil {
		t.Errorf("%s: %s, want %s", p.id, jsonText(exited), signal)
	}
	rusage := exited["rusage"].(obj)
	return num(rusage["userMs"]) + num(rusage["systemMs"])
}

// TestLimitsInParallel: many programs start at once. Each has its own limit from its first instruction
// on, and ends like a program without limits.
func TestLimitsInParallel(t *testing.T) {
	t.Parallel()
	const n = 60
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment)
		c := s.session(nil)
		callAll(c, "process/start", n, func(i int) obj {
			return startParams(nth("p", i), obj{"argv": []string{"/bin/cat", "/proc/self/limits"}, "tty": i%4 == 3, "limits": obj{"nofile": 100 + i}})
		})
		for i := range n {
			p := c.process(nth("p", i))
			code, stdout := p.awaitClosed()
			got := limitsIn(stdout + p.outputSoFar("pty"))
			if want := fmt.Sprintf("%d %d", 100+i, 100+i); code != 0 || len(got) != 1 || got[0]["Max open files"] != want {
				t.Errorf("process %d: exit code %d, limits %v, want %s open files", i, code, got, want)
			}
		}
		awaitNoZombies(t, s)
	})
}

// TestLimitsOfRuns: each run of a process has its limits, and so has its probe. Each process of a group
// has its own limits.
func TestLimitsOfRuns(t *testing.T) {
	t.Parallel()
	c := startServer(t, "--containment", "marker").session(knowing)
	limits := obj{"nofile": 50}
	if _, stdout := c.start("runs", obj{"argv": sh("ulimit -n"), "limits": limits, "restart": restart("permanent", 2)}).awaitClosed(); stdout != "50\n50\n50\n" {
		t.Errorf("the runs had %q, want 50 thrice", stdout)
	}
	file := filepath.Join(t.TempDir(), "file")
	probed := c.start("probed", obj{"argv": sh("exec sleep 1000"), "limits": limits,
		"liveness": obj{"probe": obj{"argv": sh("ulimit -n >" + file + "; exit 1"), "everyMs": 1, "timeoutMs": 60_000, "failures": 1}}})
	probed.awaitClosed()
	if had, err := os.ReadFile(file); string(had) != "50\n" {
		t.Errorf("the probe had %q, %v; want 50", had, err)
	}
	member := func(id string, limits obj) obj {
		return startParams(id, obj{"argv": sh("ulimit -n"), "limits": limits})
	}
	c.call("group/start", groupOf("g", "one_for_one", 1, member("a", limits), member("b", obj{"nofile": 60})))
	for id, want := range map[string]string{"a": "50\n", "b": "60\n"} {
		if _, stdout := c.process(id).awaitClosed(); stdout != want {
			t.Errorf("%s of the group had %q, want %q", id, stdout, want)
		}
	}
	code, text := c.callError("group/start", groupOf("refused", "one_for_one", 1, member("c", limits), member("d", obj{"pids": 5})))
	if code != -32603 || !strings.HasPrefix(text, "process d of the group: limits.pids needs") || c.group("refused") != nil {
		t.Errorf("a group with a limit that is not to be had: %d %s, %v", code, text, c.group("refused"))
	}
}

// TestLimitsRefused: the refusal of an impossible limit explains the reason, and leaves nothing behind.
func TestLimitsRefused(t *testing.T) {
	t.Parallel()
	hard := hardLimit(t, unix.RLIMIT_NOFILE)
	eachContainment(t, func(t *testing.T, containment string) {
		s := startServer(t, "--containment", containment)
		c := s.session(nil)
		token := newToken(t)
		c.start("warm-up", obj{"argv": sh("exit 0")}).awaitClosed()
		files, cgroups := s.openFiles(), cgroupTree(t, s)
		for _, tty := range []bool{false, true} {
			for _, test := range []struct {
				limits obj
				text   string
			}{
				{obj{"nofile": 1 << 40}, fmt.Sprintf("limits.nofile is %d: the hard limit here is %d", 1<<40, hard)},
				{obj{"nofile": 50, "nice": 19, "memoryBytes": 1 << 20}, "limits.memoryBytes needs the memory controller of cgroup v2, "},
				{obj{"pids": 5}, "limits.pids needs the pids controller of cgroup v2, "},
				{obj{"cpus": 0.5}, "limits.cpus needs the cpu controller of cgroup v2, "},
			} {
				answer := c.reply(c.request("process/start", startParams("p", obj{"argv": []string{"/bin/sleep", token}, "tty": tty, "limits": test.limits})))
				if resultOf(answer) != nil && containment == "cgroup" {
					needs.Feature(t, fmt.Errorf("a cgroup without controllers: %v is not refused here", test.limits))
				}
				text, _ := errorOf(answer)["message"].(string)
				if num(errorOf(answer)["code"]) != -32603 || !strings.HasPrefix(text, test.text) {
					t.Errorf("%v: %s, want -32603 %s", test.limits, jsonText(answer), test.text)
				}
				why := fmt.Sprintf("this server contains its processes by %q", containment)
				if containment == "cgroup" {
					why = "which is not delegated to this server: "
				}
				if strings.Contains(test.text, "controller") && !strings.Contains(text, why) {
					t.Errorf("%v: %s, want to read that %s", test.limits, text, why)
				}
				wantNoKin(t, "once a start was refused", token)
			}
		}
		for _, cgroup := range cgroupTree(t, s) { // the one of warm-up may go meanwhile
			if !slices.Contains(cgroups, cgroup) {
				t.Errorf("there is %s, and before only %v", cgroup, cgroups)
			}
		}
		awaitNoZombies(t, s)
		eventually(t, "no more files are open than before", func() bool { return s.openFiles() <= files })
		if code, _ := c.start("p", obj{"argv": sh("exit 4"), "limits": obj{"nofile": 50}}).awaitClosed(); code != 4 {
			t.Errorf("under the id that was refused: exit code %d, want 4", code)
		}
	})
}

// cgroupTree returns the lists of the cgroups inside those of a server.
func cgroupTree(t *testing.T, s *server) (dirs []string) {
	for _, dir := range cgroupsOf(t, s.cmd.Process.Pid) {
		leaves, err := filepath.Glob(dir + "/*/cgroup.procs")
		if err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, leaves...)
	}
	return dirs
}
