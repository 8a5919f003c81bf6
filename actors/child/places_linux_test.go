package child

import (
	"context"
	"errors"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// inWorkspace gives spec a sandbox with a directory to write, in which nobody may make .codex.
func inWorkspace(spec Spec, dir string) Spec {
	spec = inJail(spec)
	var st syscall.Stat_t
	if err := syscall.Lstat(dir, &st); err != nil {
		panic(err)
	}
	spec.policy.Paths = []sandbox.Path{
		{Path: dir, Access: sandbox.Write, Dev: uint64(st.Dev), Ino: st.Ino},
		{Path: dir + "/.codex", Access: sandbox.Read, Kind: sandbox.Missing},
	}
	spec.Dir = dir
	return spec
}

func wantPlaceholder(t *testing.T, dir string, want bool) {
	t.Helper()
	if _, err := os.Lstat(dir + "/.codex"); (err == nil) != want {
		t.Errorf("is there a placeholder: %v; want %v", err == nil, want)
	}
}

func TestPlaceholderWhileTheProgramRuns(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, HostConfig{})
	w := jailed(t, h, inWorkspace(piped(script(`mkdir .codex; rmdir .codex; ls -A .codex; echo > f; echo ready; read x; echo > .codex/x; exit 3`)), dir))
	w.untilOutput(protocol.Stdout, "ready")
	wantPlaceholder(t, dir, true)
	if err := syscall.Rmdir(dir + "/.codex"); err != syscall.ENOTEMPTY {
		t.Errorf("rmdir on the host: %v", err)
	}
	// A second sandbox keeps the placeholder when the first has ended.
	second := jailed(t, h, inWorkspace(piped(script(`echo ready; read x; mkdir .codex`)), dir))
	second.untilOutput(protocol.Stdout, "ready")
	w.Write([]byte("\n"))
	w.untilClosed()
	if w.status.ExitCode != 3 {
		t.Errorf("exit: %+v", w.status)
	}
	wantPlaceholder(t, dir, true)
	second.Write([]byte("\n"))
	second.untilClosed()
	if second.status.ExitCode == 0 {
		t.Error("the second sandbox could make the name when the first had ended")
	}
	wantPlaceholder(t, dir, false)
}

func TestPlaceholderOfAKilledJail(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, HostConfig{})
	for _, kill := range []func(Handle){
		func(p Handle) { syscall.Kill(p.PID(), syscall.SIGKILL) },
		func(p Handle) { p.KillTree(func(error) {}) },
	} {
		w := jailed(t, h, inWorkspace(script(`setsid sleep 1000 & echo ready; sleep 1000`), dir))
		w.untilOutput(protocol.Stdout, "ready")
		kill(w.Handle)
		w.untilClosed()
		wantPlaceholder(t, dir, false)
	}
}

func TestPlaceholderOfAFailedStart(t *testing.T) {
	dir := t.TempDir()
	h := newHost(t, HostConfig{})
	jailed(t, h, inWorkspace(script(`exit 0`), dir)).untilClosed() // or the test is skipped
	for _, change := range []func(*Spec){
		func(s *Spec) { s.Argv = []string{"nosuchprogram"} },
		func(s *Spec) { s.policy.Paths[0].Ino++ },
		func(s *Spec) { s.Limits.NoFile = new(uint64(1 << 40)) },
	} {
		spec := inWorkspace(script(`exit 0`), dir)
		change(&spec)
		if _, err := tryStart(t, h, spec, 1<<20); err == nil {
			t.Error("the start succeeds")
		}
		wantPlaceholder(t, dir, false)
	}
	// A start that is given up when its placeholders are held already.
	for range 20 {
		ctx, cancel := context.WithCancel(context.Background())
		spec := inWorkspace(script(`sleep 1000`), dir)
		spec.Context = ctx
		time.AfterFunc(time.Millisecond, cancel)
		if w, err := tryStart(t, h, spec, 1<<20); err == nil {
			w.KillTree(func(error) {})
			w.untilClosed()
		}
		cancel()
	}
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Lstat(dir + "/.codex"); err != nil {
			break
		}
		if time.Since(begun) > time.Minute {
			t.Fatal("the placeholder of a start that was given up is still there")
		}
	}
}

// Its start has failed by then, and a look-up of many paths would keep a CPU busy.
func TestLookUpOfASandboxEndsAtTheDeadline(t *testing.T) {
	h := newHost(t, HostConfig{AnswerTime: time.Nanosecond})
	spec := script("")
	spec.Dir = t.TempDir()
	spec.Sandbox = protocol.WorkspaceSandbox(spec.Dir)
	if err := h.resolve(&spec, func(string) {}); !errors.Is(err, ErrNoAnswer) || spec.held != nil {
		t.Errorf("error %v", err)
	}
}
