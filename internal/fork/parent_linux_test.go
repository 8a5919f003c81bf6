package fork

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// sonVar is the variable with a way of starting a process, for a test binary that is a son of a test. The son starts one as a child of the test.
const sonVar = "TROUPE_FORK_SON"

// told is what a son tells.
type told struct {
	PID  int
	Err  string
	Step Step
}

// ways are the ways of starting a child of this program's parent.
var ways = map[string]func(a *Attr) (int, error){
	"vfork": Start,
	"desk":  onDesk,
	"copy":  startCopy,
	"namespaces": func(a *Attr) (int, error) {
		a.Namespaces = namespaces
		return onDesk(a)
	},
	"cgroup": func(a *Attr) (int, error) { // takes clone3(2)
		dir, err := ownCgroup()
		if err != nil {
			return 0, err
		}
		fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return 0, err
		}
		a.Cgroup = fd
		return onDesk(a)
	},
}

func onDesk(a *Attr) (int, error) {
	var early [50]int // descriptors below those of the process
	for i := range early {
		early[i], _ = unix.Dup(0)
		unix.CloseOnExec(early[i])
	}
	d, err := NewDesk()
	if err != nil {
		return 0, err
	}
	defer d.Close()
	a.Blocked = d.Blocked
	return d.Start(a)
}

// ownCgroup returns the directory of this program in cgroup v2.
func ownCgroup() (string, error) {
	text, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
				if _, err := os.Stat(filepath.Join(root, path, "cgroup.procs")); err == nil {
					return filepath.Join(root, path), nil
				}
			}
		}
	}
	return "", os.ErrNotExist
}

func init() {
	way, dies := strings.CutSuffix(os.Getenv(sonVar), "!")
	if way == "" {
		return
	}
	way, program, _ := strings.Cut(way, ":")
	memory, err := unix.Mmap(3, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	a := &Attr{
		Path: program, Argv: []string{"sh", "-c", "echo $PPID; read line || exec sleep 60; ls /proc/self/fd | wc -l; exit 7"}, Env: []string{"PATH=/bin:/usr/bin"},
		Files: []uintptr{0, 1, 2}, Umask: -1, Session: true, DeathSignal: true,
		Parent: os.Getppid(), PIDSlot: (*uint32)(unsafe.Pointer(&memory[0])),
	}
	for i, fd := range a.Files {
		high, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 200)
		if err != nil {
			panic(err)
		}
		a.Files[i] = uintptr(high)
	}
	pid, err := ways[way](a)
	say := told{PID: pid}
	if err != nil {
		say.Err = err.Error()
		if e, ok := err.(*Error); ok {
			say.Step = e.Step
		}
	}
	if dies {
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	text, _ := json.Marshal(say)
	os.NewFile(4, "told").Write(append(text, '\n'))
	os.Exit(0)
}

// son starts a son that starts a program, and returns the slot of its pid, the other ends of its standard streams, and what the son has told. With "!" after
// the program the son kills itself after the start, and tells nothing.
func son(t *testing.T, way, program string) (slot *uint32, in *os.File, out *bufio.Reader, say told) {
	t.Helper()
	fd, err := unix.MemfdCreate("slot", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(fd), "slot")
	t.Cleanup(func() { file.Close() })
	file.Truncate(int64(os.Getpagesize()))
	memory, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Munmap(memory) })
	pipes := [3][2]*os.File{}
	for i := range pipes {
		if pipes[i][0], pipes[i][1], err = os.Pipe(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { pipes[i][0].Close(); pipes[i][1].Close() })
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%s", sonVar, way, program))
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes[0][0], pipes[1][1], os.Stderr
	cmd.ExtraFiles = []*os.File{file, pipes[2][1]}
	err = cmd.Run()
	pipes[0][0].Close()
	pipes[1][1].Close()
	pipes[2][1].Close()
	if !strings.HasSuffix(program, "!") {
		if err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(pipes[2][0]).Decode(&say); err != nil {
			t.Fatal(err)
		}
	}
	return (*uint32)(unsafe.Pointer(&memory[0])), pipes[0][1], bufio.NewReader(pipes[1][0]), say
}

// A process with Parent is a child of this program's parent in each way of starting it. Its pid is in shared memory, and it lives on when
// this program has ended or is killed.
func TestParent(t *testing.T) {
	for way := range ways {
		for _, end := range []string{"", "!"} {
			t.Run(way+end, func(t *testing.T) {
				switch way {
				case "namespaces":
					needs.NewProc(t, os.Getuid())
				case "cgroup":
					needs.Cgroup(t)
				}
				slot, in, out, say := son(t, way, "/bin/sh"+end)
				if say.Err != "" {
					t.Fatal(say.Err)
				}
				pid := int(atomic.LoadUint32(slot))
				if pid == 0 || end == "" && say.PID != pid {
					t.Fatalf("the pid is %d, and %d in shared memory", say.PID, pid)
				}
				parent, want := 0, os.Getpid()
				if way == "namespaces" {
					want = 0
				}
				if _, err := fmt.Fscan(out, &parent); err != nil || parent != want {
					t.Errorf("the parent is %d, %v, want %d", parent, err, want)
				}
				in.Write([]byte("\n"))
				files := 0
				if _, err := fmt.Fscan(out, &files); err != nil || files != 4 {
					t.Errorf("the program has %d descriptors, %v, want 4", files, err)
				}
				if ws := wait(t, pid); ws.ExitStatus() != 7 {
					t.Errorf("the status is %v", ws)
				}
			})
		}
	}
}

// A process with Parent that executes nothing comes with its pid: only the parent can reap it.
func TestParentReapsAFailure(t *testing.T) {
	for _, way := range []string{"vfork", "desk", "copy"} {
		slot, _, _, say := son(t, way, "/no/such/program")
		if say.Step != StepExec || say.PID == 0 || say.PID != int(atomic.LoadUint32(slot)) {
			t.Fatalf("%s: the error is %+v", way, say)
		}
		if ws := wait(t, say.PID); ws.ExitStatus() != 253 {
			t.Errorf("%s: the status is %v", way, ws)
		}
	}
}

// The kernel kills a process with Parent at the end of the parent, and not at the end of the program that has started it.
func TestParentsDeathSignal(t *testing.T) {
	if os.Getenv(sonVar+"_PARENT") != "" {
		slot, _, out, _ := son(t, "desk", "/bin/sh")
		out.ReadString('\n')
		fmt.Println("pid", atomic.LoadUint32(slot))
		unix.Kill(os.Getpid(), unix.SIGKILL)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	defer unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
	cmd := exec.Command(os.Args[0], "-test.run=^TestParentsDeathSignal$")
	cmd.Env = append(os.Environ(), sonVar+"_PARENT=1")
	text, _ := cmd.Output()
	pid := 0
	if _, err := fmt.Sscanf(string(text), "pid %d", &pid); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if ws := wait(t, pid); ws.Signal() != syscall.SIGKILL {
		t.Errorf("the status is %v", ws)
	}
}

// A desk has the same descriptors before and after a start, and lends none of the program's.
func TestDesk(t *testing.T) {
	d, err := NewDesk()
	needs.Feature(t, err)
	defer d.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.Readlink("/proc/self/fd/0")
	if err != nil {
		t.Fatal(err)
	}
	a := &Attr{Path: "/bin/true", Argv: []string{"true"}, Files: []uintptr{r.Fd(), w.Fd(), w.Fd()}, Umask: -1, Blocked: d.Blocked}
	pid, err := d.Start(a)
	if err != nil {
		t.Fatal(err)
	}
	wait(t, pid)
	if after, err := os.Readlink("/proc/self/fd/0"); err != nil || after != before {
		t.Fatalf("descriptor 0 of this program was %s, and is %s, %v", before, after, err)
	}
	w.Close()
	if n, _ := r.Read(make([]byte, 1)); n != 0 { // blocks while somebody has the other end
		t.Error("the pipe has bytes")
	}
	for _, fd := range d.low {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d: flags %x, %v", fd, flags, err)
		}
	}
}
