package child

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
)

const hello = "#!/bin/sh\necho hello from $(basename $PWD)\n"

// startLater begins a start and returns a channel for its error.
func startLater(h *Host, spec Spec) <-chan error {
	failed := make(chan error, 1)
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
	h.Start(spec, in, func(p Handle, err error) {
		if err == nil {
			p.Finish(func(error) {})
		}
		failed <- err
	})
	return failed
}

// withHang returns a host whose starts have an hour for what answers, and a filesystem removed when the host is closed.
func withHang(t *testing.T) (*Host, *hangfs.FS) {
	return newHost(t, HostConfig{AnswerTime: time.Hour}), hangfs.Mount(t, map[string]string{"prog": hello, "dir/": ""})
}

func owned(spec Spec, owner string) Spec { spec.Owner = owner; return spec }

// timed gives spec a time that the caller ends: a slow machine may need more than any time.
func timed(t *testing.T, spec Spec) (_ Spec, timeOut func()) {
	ctx, cancel := context.WithCancelCause(t.Context())
	spec.Context = ctx
	return spec, func() { cancel(ErrNoAnswer) }
}

func untilHangs(fs *hangfs.FS) {
	for fs.Hanging() < 1 {
		time.Sleep(time.Millisecond)
	}
}

// The wait for a child's exec ends after its time.
func TestWaitForExecEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	cutting(t.Context(), r, time.Millisecond)
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
}

// While the filesystem answers, directories and programs on it behave like others.
func TestFilesystemAnswers(t *testing.T) {
	h, fs := withHang(t)
	limited := uint64(99)
	for i, spec := range []Spec{
		{Argv: []string{"/bin/sh", "-c", "echo hello from $(basename $PWD)"}, Dir: fs.Path("dir")},
		{Argv: []string{fs.Path("prog")}, Dir: fs.Path("dir")},
		{Argv: []string{"prog"}, Dir: fs.Path("dir"), Env: []string{"PATH=:/nowhere:" + fs.Dir + ":/bin:/usr/bin"}},
		{Argv: []string{"../prog"}, Dir: fs.Path("dir"), Limits: protocol.ProcessLimits{NoFile: &limited}},
		{Argv: []string{"../prog"}, Dir: fs.Path("dir"), TTY: true},
	} {
		spec.Name = script("").Name
		w := start(t, h, spec)
		w.untilClosed()
		out := strings.TrimSpace(string(w.out[protocol.Stdout]) + string(w.out[protocol.PTY]))
		if out != "hello from dir" || w.status.ExitCode != 0 {
			t.Errorf("start %d: %q, %+v", i, out, w.status)
		}
	}
	nofile := "#!/bin/sh\nulimit -n\n"
	if err := os.WriteFile(t.TempDir()+"/x", []byte(nofile), 0o755); err != nil {
		t.Fatal(err)
	}
	var limits [2]string
	for i, dir := range []string{"/", fs.Path("dir")} {
		spec := script("ulimit -n; ulimit -Hn; cat /proc/self/status | grep -i ^sig[bic]; ls -l /proc/self/fd | wc -l; ps -o pgid=,sid= -p $$ | tr -s ' ' '\n' | sort -u | wc -l")
		spec.Dir = dir
		w := start(t, h, spec)
		w.untilClosed()
		limits[i] = string(w.out[protocol.Stdout])
	}
	if limits[0] != limits[1] {
		t.Errorf("a child of one fork has\n%s\nof the other\n%s", limits[0], limits[1])
	}
	_, err := tryStart(t, h, Spec{Name: script("").Name, Argv: []string{fs.Path("none")}, Dir: fs.Path("dir")}, 1<<20)
	if !errors.Is(err, ErrNoProgram) {
		t.Error(err)
	}
}

// A hanging look-up fails after its time. The number of hanging look-ups is limited for each owner;
// other owners can start programs.
func TestLookUpHangs(t *testing.T) {
	h, fs := withHang(t)
	var failed []<-chan error
	steps := []string{fmt.Sprintf("look-up of working directory %q", fs.Path("hang-dir")), fmt.Sprintf("look-up of program %q", fs.Path("hang-bin/prog"))}
	for i := range 3 * turnsEach {
		spec := owned(script(":"), "one")
		if i%2 == 0 {
			spec.Dir = fs.Path("hang-dir")
		} else {
			spec.Argv = []string{"prog"}
			spec.Env = []string{"PATH=/nowhere:" + fs.Path("hang-bin") + ":/bin"}
		}
		failed = append(failed, startLater(h, spec))
	}
	for hanging := 0; hanging < turnsEach; time.Sleep(time.Millisecond) {
		hanging = 0
		h.turns.mu.Lock()
		for turn := range h.turns.owners["one"].running {
			if slices.Contains(steps, turn.step) {
				hanging++
			}
		}
		h.turns.mu.Unlock()
	}
	for range 20 {
		w := start(t, h, owned(script("echo fine"), "other"))
		w.untilClosed()
	}
	h.turns.mu.Lock()
	for turn := range h.turns.owners["one"].running {
		turn.deadline.Reset(0)
	}
	h.turns.mu.Unlock()
	named := 0
	for _, c := range failed {
		err := <-c
		if !errors.Is(err, ErrNoAnswer) {
			t.Fatal(err)
		}
		if text := err.Error(); strings.Contains(text, "the "+steps[0]+" took longer than 1h0m0s") || strings.Contains(text, "the "+steps[1]+" took longer than 1h0m0s") {
			named++
		} else if !strings.Contains(text, fmt.Sprintf("%d starts of this session", turnsEach)) {
			t.Error(err)
		}
	}
	if named != turnsEach {
		t.Errorf("%d starts were looked up, want %d", named, turnsEach)
	}
	if err := <-startLater(h, owned(script(":"), "one")); !errors.Is(err, ErrNoAnswer) {
		t.Error("one more of the same owner: ", err)
	}
	if err := <-startLater(h, owned(script(":"), "other")); err != nil {
		t.Error("another owner's: ", err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A start with a hanging look-up can be given up, and does not delay Close.
func TestLookUpGivenUp(t *testing.T) {
	h, fs := withHang(t)
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	spec := script(":")
	spec.Dir, spec.Context = fs.Path("hang"), ctx
	first, second := startLater(h, spec), startLater(h, owned(Spec{Name: script("").Name, Argv: []string{fs.Path("hang")}}, "other"))
	untilHangs(fs)
	cancel(gone)
	if err := <-first; !errors.Is(err, gone) {
		t.Error(err)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// If a filesystem hangs between look-up and exec, other starts go on.
func TestExecHangs(t *testing.T) {
	for name, op := range map[string]int{"chdir": hangfs.Access, "read": hangfs.Read} {
		t.Run(name, func(t *testing.T) {
			h, fs := withHang(t)
			spec, timeOut := timed(t, Spec{Name: script("").Name, Argv: []string{fs.Path("prog")}, Dir: fs.Path("dir")})
			if !mayHang(spec.Dir, spec.Argv[0]) || mayHang("/", "/bin/sh") {
				t.Fatal("which start may hang is not seen")
			}
			spec.DefaultSandbox = func(string) *protocol.Sandbox { // comes after the look-up
				fs.Hang(op)
				fs.Hang(hangfs.Open)
				return nil
			}
			failed := startLater(h, spec)
			for range 20 {
				start(t, h, script("echo fine")).untilClosed()
			}
			untilHangs(fs)
			timeOut()
			if err := <-failed; !errors.Is(err, ErrNoAnswer) {
				t.Error(err)
			}
			h.turns.mu.Lock()
			defer h.turns.mu.Unlock()
			if unborn := h.trees.Unborn(); len(unborn) != 1 || h.turns.late != 1 {
				t.Errorf("%v are unborn, %d turns are late, want one", unborn, h.turns.late)
			}
		})
	}
}

// If a jail hangs before its program runs, the start fails after its time. Then no placeholder is there. When the killed jail
// has ended, its process and its cgroup are gone, too.
func TestJailHangs(t *testing.T) {
	h, fs := withHang(t)
	dir := t.TempDir()
	jailed(t, h, inWorkspace(script(""), dir)).untilClosed() // or the test is skipped
	spec := inWorkspace(script("echo > ran"), dir)
	spec.policy.Paths = append(spec.policy.Paths, sandbox.Path{Path: fs.Path("hang"), Access: sandbox.Deny})
	spec, timeOut := timed(t, spec)
	late := make(chan error, 1)
	go func() {
		_, err := tryStart(t, h, spec, 1<<20)
		late <- err
	}()
	untilHangs(fs)
	timeOut()
	err := <-late
	if !errors.Is(err, ErrNoAnswer) || !strings.Contains(err.Error(), "sandbox and execution of") {
		t.Error(err)
	}
	wantPlaceholder(t, dir, false)
	hanging := h.trees.Unborn()
	if len(hanging) != 1 || fs.Hanging() != 1 {
		t.Fatalf("%v are unborn, %d look-ups hang, want one", hanging, fs.Hanging())
	}
	var leaf string
	if dir := cgroupOf(t, h); dir != "" {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", hanging[0]))
		if leaf = filepath.Join(dir, filepath.Base(strings.TrimSpace(string(text)))); err != nil || !strings.Contains(leaf, spec.Name) {
			t.Errorf("the jail is in %q, %v", text, err)
		}
	}
	fs.Free()
	for len(h.trees.Unborn()) > 0 {
		time.Sleep(time.Millisecond)
	}
	h.turns.mu.Lock()
	for ; h.turns.running > 0; h.turns.mu.Lock() { // the turn goes last
		h.turns.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	if h.turns.late != 0 {
		t.Errorf("%d turns are late", h.turns.late)
	}
	h.turns.mu.Unlock()
	if exists(hanging[0]) {
		t.Error("the jail is still there")
	}
	if _, err := os.Stat(leaf); leaf != "" && !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup %s is still there: %v", leaf, err)
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("the program has run")
	}
}

// The sizes of PATH, argv and environment are limited.
func TestLookUpBounded(t *testing.T) {
	h := newHost(t, HostConfig{})
	for _, env := range [][]string{
		{"PATH=" + strings.Repeat("/x", 40<<10)},
		{"PATH=" + strings.Repeat(":", maxPathDirs)},
		{"A=" + strings.Repeat("x", 7<<20)},
	} {
		spec := Spec{Name: script("").Name, Argv: []string{"true"}, Env: env}
		if _, err := tryStart(t, h, spec, 1<<20); !errors.Is(err, ErrArgument) || !strings.Contains(err.Error(), fmt.Sprint(len(env[0])-5)) && !strings.Contains(err.Error(), "limit is") {
			t.Error(err)
		}
	}
}

// The interpreter found for a program is the interpreter the kernel uses.
func TestInterpreter(t *testing.T) {
	for _, tt := range []struct{ program, want string }{{"/bin/sh", "ld"}} {
		got, ok := interpreterOf(tt.program)
		if !ok || !strings.Contains(got, tt.want) || (got == "") != (tt.want == "") {
			t.Errorf("%s: %q, %v", tt.program, got, ok)
		}
	}
	dir := t.TempDir()
	for text, want := range map[string]string{"#! /bin/sh -e\n": "/bin/sh", "#!x": "x"} {
		os.WriteFile(dir+"/script", []byte(text), 0o755)
		if got, ok := interpreterOf(dir + "/script"); !ok || got != want {
			t.Errorf("%q: %q, %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "#!", "text", "\x7fELF\x02\x01" + strings.Repeat("\xff", 100)} {
		os.WriteFile(dir+"/other", []byte(text), 0o755)
		if got, ok := interpreterOf(dir + "/other"); ok {
			t.Errorf("%q: %q", text, got)
		}
	}
	if err := unix.Symlink("/bin", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	if mayHang(dir, dir+"/link/sh") {
		t.Error("what is local is not seen")
	}
}

// A start may hang on a filesystem that needs another program: also by a link, and by the interpreter of a script.
func TestMayHang(t *testing.T) {
	_, fs := withHang(t)
	dir := t.TempDir()
	for _, err := range []error{
		os.Symlink(fs.Path("dir"), dir+"/link"), os.Mkdir(dir+"/in", 0o755),
		os.WriteFile(dir+"/script", []byte("#!"+fs.Path("prog")+"\n"), 0o755),
		os.WriteFile(dir+"/other", []byte("#!/bin/sh\n"), 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		dir, program string
		want         bool
	}{
		{dir, "/bin/sh", false}, {dir, "other", false}, {dir + "/in", "../other", false},
		{fs.Path("dir"), "/bin/sh", true}, {dir + "/link", "/bin/sh", true}, {dir, fs.Path("prog"), true}, {dir, "script", true}, {dir, "missing", true},
		{"in", "/bin/sh", true}, {"", "other", true},
	} {
		if got := mayHang(tt.dir, tt.program); got != tt.want {
			t.Errorf("%q in %q: %v, want %v", tt.program, tt.dir, got, tt.want)
		}
	}
}

// A failing disk is reported neither as a missing program nor as a missing permission.
func TestBrokenFilesystem(t *testing.T) {
	fs := hangfs.Mount(t, map[string]string{"program": "#!/bin/sh\n"})
	fs.Free() // all calls fail with ENOTCONN
	h := newHost(t, HostConfig{})
	for _, spec := range []Spec{
		{Argv: []string{fs.Path("program")}},
		{Argv: []string{"program"}, Env: []string{"PATH=/usr/bin:" + fs.Dir + ":/bin"}},
		{Argv: []string{"/bin/true"}, Dir: fs.Dir},
	} {
		spec.Name = script("").Name
		_, err := tryStart(t, h, spec, 1<<20)
		if !errors.Is(err, unix.ENOTCONN) || errors.Is(err, ErrNoProgram) || errors.Is(err, ErrPermission) || errors.Is(err, ErrDir) {
			t.Errorf("%q: %v", spec.Argv, err)
		}
	}
	found := Spec{Name: script("").Name, Argv: []string{"true"}, Env: []string{"PATH=" + fs.Dir + ":/usr/bin:/bin"}}
	if _, err := tryStart(t, h, found, 1<<20); err != nil {
		t.Errorf("a broken directory in PATH hides the others: %v", err)
	}
}

// TestProgramOfAGivenUpStart: a start is given up at the moment when its program begins. Nothing of the program is left.
func TestProgramOfAGivenUpStart(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		t.Run(string(mode), func(t *testing.T) {
			h := newHost(t, HostConfig{Containment: mode})
			name := script("").Name
			tree, err := h.trees.Make(name, protocol.ProcessLimits{})
			if err != nil {
				t.Fatal(err)
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			a, err := attrOf(&birth{
				spec: &Spec{Env: []string{"PATH=/bin:/usr/bin"}}, path: "/bin/sh",
				argv:   []string{"sh", "-c", "sleep 1000 >/dev/null & echo $!; exec sleep 1000"},
				theirs: []uintptr{h.null.Fd(), w.Fd(), 2},
			})
			if err != nil {
				t.Fatal(err)
			}
			tree.Mark(a)
			pid, err := fork.Start(a)
			w.Close()
			if err != nil {
				t.Fatal(err)
			}
			var left int
			if _, err := fmt.Fscan(r, &left); err != nil {
				t.Error(err)
			}
			syscall.Kill(pid, syscall.SIGKILL)
			h.buryLate(h.turns.enter(""), pid, tree, &Spec{Name: name}, "/bin/sh")
			if running(pid) || running(left) {
				t.Errorf("child %d runs: %t, its child %d: %t", pid, running(pid), left, running(left))
				syscall.Kill(left, syscall.SIGKILL)
			}
		})
	}
}
