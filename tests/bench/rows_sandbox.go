package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// These rows compare a confined program with the same program in bubblewrap, which the same server starts without a
// sandbox. Both have the same view: everything is read-only except a workspace, and there is no network. Bubblewrap has no
// Landlock and no filter of system calls here, and leaves its placeholders behind.

// These name the raw limits. Where bwrap is not in PATH, or fails, the limits are missing.
const (
	bubblewrap     = "in bubblewrap"
	bareBubblewrap = "bubblewrap without a server"
)

var sandboxRows = []row{
	{
		name: "sandbox-start",
		lines: []line{
			{what: "start to closed of /bin/true in a sandbox, one at a time, p50", unit: "ms", target: atMostOfRaw(1), raw: []string{bubblewrap}},
			{what: "the same, p99", unit: "ms", raw: []string{bubblewrap}},
			{what: "the same without a sandbox, p50", unit: "ms"},
			{what: "the same in a sandbox, beside no server, p50", unit: "ms", raw: []string{bareBubblewrap}},
		},
		measure: func(b *bench) ([]reading, error) {
			y, err := b.workspace()
			if err != nil {
				return nil, err
			}
			n := b.n(500, 10)
			confined, _, err := b.starts(n, 1, y.confined)
			if err != nil {
				return nil, notYet(err)
			}
			plain, _, err := b.starts(n, 1, plainTrue)
			if err != nil {
				return nil, err
			}
			wrapped, _, err := b.wrappedStarts(y, n, 1)
			if err != nil {
				return nil, err
			}
			var bare times
			if bwrap := b.bwrap(y); bwrap != "" {
				bare, _, err = b.rawStarts(n, 1, y.wrapped(bwrap, trueProgram)...)
			}
			return []reading{
				{confined.percentile(0.5), ofTimes(wrapped, 0.5)},
				{confined.percentile(0.99), ofTimes(wrapped, 0.99)},
				{plain.percentile(0.5), nil},
				{confined.percentile(0.5), ofTimes(bare, 0.5)},
			}, err
		},
	},
	{
		name:  "sandbox-start16",
		lines: []line{{what: "starts in sandboxes on one connection, 16 in flight", unit: "1/s", target: atLeastOfRaw(1), raw: []string{bubblewrap}}},
		measure: func(b *bench) ([]reading, error) {
			y, err := b.workspace()
			if err != nil {
				return nil, err
			}
			n := b.n(1000, 32)
			_, all, err := b.starts(n, 16, y.confined)
			if err != nil {
				return nil, notYet(err)
			}
			r := reading{ours: float64(n) / all.Seconds()}
			each, all, err := b.wrappedStarts(y, n, 16)
			if len(each) > 0 {
				r.raw = []float64{float64(n) / all.Seconds()}
			}
			return []reading{r}, err
		},
	},
	{
		name: "sandbox-memory",
		runs: 3,
		lines: []line{
			{what: "memory of the processes around a program in a sandbox, private", unit: "KiB", raw: []string{bubblewrap}},
			{what: "the same, proportional", unit: "KiB", raw: []string{bubblewrap}},
			{what: "their threads", unit: "1", raw: []string{bubblewrap}},
		},
		measure: (*bench).sandboxMemory,
	},
	{
		name: "sandbox-files",
		lines: []line{
			{what: "fs/writeFile of 1 KiB under a sandbox, p50", unit: "ms", raw: []string{"without a sandbox"}},
			{what: "fs/readFile of 1 KiB under a sandbox that reads everything, p50", unit: "ms", raw: []string{"without a sandbox"}},
			{what: "fs/readFile of 1 KiB under a sandbox that hides a file, p50", unit: "ms", raw: []string{"without a sandbox"}},
		},
		measure: (*bench).sandboxFiles,
	},
}

// notYet turns the refusal of a server that has no sandbox, or of a machine that permits none, into a skip.
func notYet(err error) error {
	if err != nil && (strings.Contains(err.Error(), "sandbox is not supported by this server") || strings.Contains(err.Error(), "user namespace")) {
		return skipped(err.Error())
	}
	return err
}

func ofTimes(t times, q float64) []float64 {
	if len(t) == 0 {
		return nil
	}
	return []float64{t.percentile(q)}
}

// yard is a directory that confined programs may write.
type yard struct{ dir string }

// workspace makes a directory with .git, a file, and a hidden file.
func (b *bench) workspace() (y yard, err error) {
	if y.dir, err = os.MkdirTemp(b.dir, "workspace-"); err != nil {
		return y, err
	}
	if y.dir, err = filepath.EvalSymlinks(y.dir); err != nil {
		return y, err
	}
	if err := os.Mkdir(y.dir+"/.git", 0o755); err != nil {
		return y, err
	}
	for _, name := range []string{"file", "hidden"} {
		if err := os.WriteFile(filepath.Join(y.dir, name), make([]byte, 1024), 0o644); err != nil {
			return y, err
		}
	}
	return y, nil
}

// sandbox returns the member of a request, as the peer's client sends it, with more entries.
func (y yard) sandbox(more ...string) json.RawMessage {
	entries := []string{
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`,
		`{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"}`,
	}
	for _, name := range []string{".git", ".agents", ".codex", ".aws"} {
		entries = append(entries, fmt.Sprintf(`{"path":{"type":"special","value":{"kind":"project_roots","subpath":%q}},"access":"read","missing_path_behavior":"skip"}`, name))
	}
	entries = append(entries, more...)
	return json.RawMessage(fmt.Sprintf(`{"permissions":{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[%s]}},"cwd":"file://%s","workspaceRoots":["file://%[2]s"],"windowsSandboxLevel":"disabled"}`,
		strings.Join(entries, ","), y.dir))
}

func (y yard) hidden() string {
	return fmt.Sprintf(`{"path":{"type":"path","path":"file://%s/hidden"},"access":"deny"}`, y.dir)
}

func (y yard) confined(id string) protocol.ProcessStartParams { return y.confine(id, trueProgram) }

func (y yard) confine(id string, argv ...string) protocol.ProcessStartParams {
	p := startParams(id, false, argv...)
	p.Cwd, p.Sandbox = "file://"+y.dir, y.sandbox()
	return p
}

// wrapped returns the argv of a program in bubblewrap.
func (y yard) wrapped(bwrap string, argv ...string) []string {
	args := []string{bwrap, "--new-session", "--die-with-parent", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", y.dir, y.dir, "--ro-bind", y.dir + "/.git", y.dir + "/.git"}
	for _, name := range []string{".agents", ".codex", ".aws"} {
		args = append(args, "--tmpfs", filepath.Join(y.dir, name), "--remount-ro", filepath.Join(y.dir, name))
	}
	args = append(args, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net", "--proc", "/proc", "--cap-drop", "ALL", "--chdir", y.dir, "--")
	return append(args, argv...)
}

// bwrap returns the path of bubblewrap, or "" if bubblewrap does not work on this machine.
func (b *bench) bwrap(y yard) string {
	path, err := exec.LookPath("bwrap")
	if err != nil {
		return ""
	}
	argv := y.wrapped(path, trueProgram)
	if out, err := exec.CommandContext(b.ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
		fmt.Fprintf(b.progress, "bubblewrap: %v: %s\n", err, out)
		return ""
	}
	return path
}

// wrappedStarts returns no times if bubblewrap does not work.
func (b *bench) wrappedStarts(y yard, n, inFlight int) (times, time.Duration, error) {
	bwrap := b.bwrap(y)
	if bwrap == "" {
		return nil, 0, nil
	}
	return b.starts(n, inFlight, func(id string) protocol.ProcessStartParams {
		return startParams(id, false, y.wrapped(bwrap, trueProgram)...)
	})
}

// sandboxMemory measures the processes between the server and idle programs.
func (b *bench) sandboxMemory() ([]reading, error) {
	y, err := b.workspace()
	if err != nil {
		return nil, err
	}
	n := b.n(100, 5)
	ours, err := b.keepers(n, func(id string) protocol.ProcessStartParams { return y.confine(id, idle...) })
	if err != nil {
		return nil, notYet(err)
	}
	readings := make([]reading, len(ours))
	for i, v := range ours {
		readings[i].ours = v
	}
	bwrap := b.bwrap(y)
	if bwrap == "" {
		return readings, nil
	}
	theirs, err := b.keepers(n, func(id string) protocol.ProcessStartParams {
		return startParams(id, false, y.wrapped(bwrap, idle...)...)
	})
	if err != nil {
		return nil, err
	}
	for i, v := range theirs {
		readings[i].raw = []float64{v}
	}
	return readings, nil
}

// keepers starts n idle programs, and returns the private memory, the proportional memory, and the threads of the processes
// around each.
func (b *bench) keepers(n int, params func(id string) protocol.ProcessStartParams) ([]float64, error) {
	c, err := b.session(subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	for i := range n {
		if err := c.call(protocol.MethodProcessStart, params(strconv.Itoa(i)), new(protocol.ProcessStartResult)); err != nil {
			return nil, err
		}
	}
	// All programs must have been executed by now.
	var around []int
	for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		var programs int
		if around, programs = descendants(c.server.pid()); programs == n {
			break
		}
		if time.Since(begin) > stopWithin {
			return nil, fmt.Errorf("%d of %d programs run", programs, n)
		}
	}
	sums := make([]float64, 3)
	for _, pid := range around {
		for _, name := range []string{"Private_Clean", "Private_Dirty"} {
			v, err := system.Number(pid, "smaps_rollup", name)
			if err != nil {
				return nil, err
			}
			sums[0] += float64(v)
		}
		pss, err := system.Number(pid, "smaps_rollup", "Pss")
		if err != nil {
			return nil, err
		}
		threads, err := threads(pid)
		if err != nil {
			return nil, err
		}
		sums[1] += float64(pss)
		sums[2] += float64(threads)
	}
	for i := range sums {
		sums[i] /= float64(n)
	}
	return sums, nil
}

// descendants returns the descendants of a server that are not the idle program, and the number of those that are.
func descendants(of int) (around []int, programs int) {
	children := map[int][]int{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		parent, _ := strconv.Atoi(fields[1])
		children[parent] = append(children[parent], pid)
	}
	for todo := slices.Clone(children[of]); len(todo) > 0; todo = todo[1:] {
		comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", todo[0]))
		switch strings.TrimSpace(string(comm)) {
		case filepath.Base(idle[0]):
			programs++
		case holder.ServerName: // below its holder
		default:
			around = append(around, todo[0])
		}
		todo = append(todo, children[todo[0]]...)
	}
	return around, programs
}

// sandboxFiles measures calls about files, with and without a sandbox in turn.
func (b *bench) sandboxFiles() ([]reading, error) {
	y, err := b.workspace()
	if err != nil {
		return nil, err
	}
	c, err := b.session(subJSON)
	if err != nil {
		return nil, err
	}
	defer c.close()
	write := func(sandbox json.RawMessage) error {
		return c.call(protocol.MethodFsWriteFile, protocol.FsWriteFileParams{Confinement: protocol.Confinement{Sandbox: sandbox}, Path: "file://" + y.dir + "/written", Data: make([]byte, 1024)}, new(protocol.Empty))
	}
	read := func(sandbox json.RawMessage) error {
		return c.call(protocol.MethodFsReadFile, protocol.FsReadFileParams{Confinement: protocol.Confinement{Sandbox: sandbox}, Path: "file://" + y.dir + "/file"}, new(protocol.FsReadFileResult))
	}
	var readings []reading
	for _, l := range []struct {
		call    func(json.RawMessage) error
		sandbox json.RawMessage
	}{{write, y.sandbox()}, {read, y.sandbox()}, {read, y.sandbox(y.hidden())}} {
		if err := l.call(l.sandbox); err != nil { // the first call is not measured: it starts a jail
			return nil, notYet(err)
		}
		var confined, free times
		for range b.n(1000, 20) {
			for _, of := range []struct {
				sandbox json.RawMessage
				to      *times
			}{{l.sandbox, &confined}, {nil, &free}} {
				begin := time.Now()
				if err := l.call(of.sandbox); err != nil {
					return nil, err
				}
				*of.to = append(*of.to, time.Since(begin))
			}
		}
		readings = append(readings, reading{confined.percentile(0.5), ofTimes(free, 0.5)})
	}
	return readings, nil
}
