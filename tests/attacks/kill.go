package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// Attacks on the end of programs.
var killAttacks = []*attack{
	{
		name: "resets in batches", short: true,
		does: "Resets connections in the middle of batches of commands that belong to them.",
		must: "No command outlives its connection.",
		run:  resets,
	},
	withoutFiles("no descriptors", "cgroup"),
	withoutFiles("no descriptors, marker", "marker"),
	{
		name: "probes, no descriptors", short: true, own: true, refusals: true, harms: anything,
		does: "Leaves the server without a descriptor while it probes a healthy program.",
		must: "The program is not restarted.",
		run:  probesWithoutFiles,
	},
	{
		name: "leavers", short: true, skip: noCgroup2,
		does: "Runs programs that move to the root cgroup and have a daemon without an environment.",
		must: "terminate, timeoutMs and session/close end them.",
		run:  leavers,
	},
	{
		name: "undumpable daemon", short: true, skip: needsRoot, configure: asNobody,
		does: "Runs a daemon that is not dumpable, without an environment, on a server of an ordinary user.",
		must: "session/close ends it, or names it.",
		run:  undumpableDaemon,
	},
	{
		name: "the server's environment", short: true, skip: needsRoot, configure: asNobody,
		does: "Runs a program that reads /proc/PID/environ of the server, both of one ordinary user.",
		must: "It gets none of the server's secrets.",
		run:  readEnviron,
	},
	afterKill("SIGKILL, cgroup", "cgroup"),
	afterKill("SIGKILL, marker", "marker"),
	afterKill("SIGKILL, group", "group"),
	{
		name: "SIGTERM, group", short: true, flags: []string{"--containment", "group"}, mayEnd: true,
		does: "Stops a server with containment group whose programs have a daemon.",
		must: "None is left, or the exit code is not 0.",
		run:  stopped,
	},
	{
		name: "SIGSTOP", own: true, harms: anything,
		does: "Stops the server with SIGSTOP for 35 s, and continues it.",
		must: "No connection closes with 1002, and the well-behaved client goes on.",
		run:  frozen,
	},
}

// anything allows the well-behaved client every error except the loss of a byte.
func anything(err error) bool {
	return !strings.HasPrefix(err.Error(), "stream") && !strings.HasPrefix(err.Error(), "end")
}

func withoutFiles(name, containment string) *attack {
	return &attack{
		name: name, short: true, skip: unlessContained(containment), flags: []string{"--containment", containment}, refusals: true, harms: anything,
		does: "Leaves the server without a descriptor, and closes a session with four trees.",
		must: "{} means that nothing is left; an error says what is.",
		run:  closeWithoutFiles,
	}
}

func afterKill(name, containment string) *attack {
	return &attack{
		name: name, short: containment == "cgroup", skip: unlessContained(containment), flags: []string{"--containment", containment}, mayEnd: true,
		does: "Kills a server whose programs have daemons without an environment, and starts the next server.",
		must: "The next server ends them; the figures say what was left.",
		run:  killed,
	}
}

// resets starts commands on a connection, and resets the connection at a random moment.
func resets(ctx context.Context, t *target) error {
	err := parallel(t.n(400, 40), 8, func(i int) error {
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		if err := p.initialize(ctx, nil); err != nil {
			return err
		}
		time.AfterFunc(rand.N(30*time.Millisecond), p.reset)
		for n := range 100 {
			params := obj{"command": []string{"/bin/sleep", t.token}, "cwd": "/", "processHandle": fmt.Sprint(n), "timeoutMs": nil}
			if _, err := p.request("process/spawn", params); err != nil {
				break // reset
			}
		}
		<-p.done
		return nil
	})
	if err != nil {
		return err
	}
	return t.awaitNoKin(ctx, answerWithin)
}

// tree starts a program with sleeping descendants, a daemon among them.
func (t *target) tree(ctx context.Context, p *peer, id string) error {
	script := `setsid sh -c 'sleep $0 & sleep $0; :' $0 & sleep $0 & sleep $0; :`
	if err := p.call(ctx, "process/start", program(id, "/bin/sh", "-c", script, t.token), nil); err != nil {
		return err
	}
	return t.awaitKin(ctx, 5)
}

// awaitKin waits until n programs of the attack run.
func (t *target) awaitKin(ctx context.Context, n int) error {
	return eventually(ctx, answerWithin, func() error {
		if got := len(t.kin()); got < n {
			return fmt.Errorf("%d programs run, want %d: this was no attack", got, n)
		}
		return nil
	})
}

// noFiles limits the server to its open descriptors and a few more, until undo.
func (t *target) noFiles(more int) (undo func(), err error) {
	n, err := system.Files(t.server.pid())
	if err != nil {
		return nil, err
	}
	var old unix.Rlimit
	limit := unix.Rlimit{Cur: uint64(n + more)}
	if err := unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, nil, &old); err != nil {
		return nil, err
	}
	limit.Max = old.Max
	undo = sync.OnceFunc(func() { unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, &old, nil) })
	t.onEnd(undo)
	return undo, unix.Prlimit(t.server.pid(), unix.RLIMIT_NOFILE, &limit, nil)
}

// closedTruly checks the answer of session/close: {} only if no program is left, otherwise an error
// that says so.
func (t *target) closedTruly(err error) error {
	left := len(t.kin())
	switch {
	case err == nil && left > 0:
		return fmt.Errorf("session/close was answered {}, and %d programs still run", left)
	case err != nil && refusal(err) == nil:
		return err
	}
	return nil
}

func closeWithoutFiles(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	for i := range 4 {
		if err := t.tree(ctx, p, fmt.Sprint("tree", i)); err != nil {
			return err
		}
	}
	undo, err := t.noFiles(10)
	if err != nil {
		return err
	}
	_, release := t.occupy(ctx, 100, 1, listen) // connections take the remaining descriptors, and each freed descriptor
	defer release()
	hold(ctx, 2*time.Second)
	if err := t.closedTruly(p.call(ctx, "session/close", obj{}, nil)); err != nil {
		return err
	}
	undo()
	return t.awaitNoKin(ctx, answerWithin)
}

func probesWithoutFiles(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	params := program("healthy", "/bin/sleep", t.token)
	params["restart"] = obj{"policy": "permanent"}
	params["liveness"] = obj{"probe": obj{"argv": []string{"/bin/true"}, "everyMs": 100, "timeoutMs": 60_000, "failures": 3}}
	if err := p.call(ctx, "process/start", params, nil); err != nil {
		return err
	}
	hold(ctx, time.Second)
	undo, err := t.noFiles(0)
	if err != nil {
		return err
	}
	hold(ctx, 3*time.Second)
	undo()
	var info struct {
		Run   int
		State string
	}
	if err := p.call(ctx, "process/info", obj{"processId": "healthy"}, &info); err != nil {
		return err
	}
	if info.Run != 1 || info.State != "running" {
		return fmt.Errorf("a healthy program is %s in run %d", info.State, info.Run)
	}
	return nil
}

// cgroupRoots returns the directories of the hierarchies to which a program may move.
func cgroupRoots() (roots []string) {
	for _, dir := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if f, err := os.OpenFile(dir+"/cgroup.procs", os.O_WRONLY, 0); err == nil {
			f.Close()
			return []string{dir}
		}
	}
	return nil
}

func noCgroup2() string {
	if len(cgroupRoots()) == 0 {
		return "there is no cgroup2 that may be written"
	}
	return ""
}

// unlessContained returns the skip of an attack on a server with the containment.
func unlessContained(containment string) func() string {
	if containment == "cgroup" {
		return noCgroup2
	}
	return nil
}

// leaver returns a program that moves to the root cgroup, with an empty environment, and sleeps.
func (t *target) leaver(id string) obj {
	script := `echo $$ >"$1/cgroup.procs"; setsid env -i /bin/sleep "$0" & sleep "$0"; :`
	return program(id, "/bin/sh", "-c", script, t.token, cgroupRoots()[0])
}

func leavers(ctx context.Context, t *target) error {
	ends := []struct {
		name string
		end  func(p *peer) error
	}{
		{"terminate", func(p *peer) error {
			return p.call(ctx, "process/terminate", obj{"processId": "leaver", "tree": true}, nil)
		}},
		{"timeoutMs", func(*peer) error { return nil }},
		{"session/close", func(p *peer) error { return p.call(ctx, "session/close", obj{}, nil) }},
	}
	for _, e := range ends {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		params := t.leaver("leaver")
		if e.name == "timeoutMs" {
			params["timeoutMs"] = 20_000 // on a busy machine, too, it has its daemon by then
		}
		if err := p.call(ctx, "process/start", params, nil); err != nil {
			return err
		}
		if err := t.awaitKin(ctx, 2); err != nil {
			return err
		}
		if err := e.end(p); err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
		if e.name == "timeoutMs" { // the timeout ends the program; its background processes may go on
			err = eventually(ctx, answerWithin, func() error {
				for _, pid := range t.kin() {
					if comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); string(comm) == "sh\n" {
						return fmt.Errorf("the leader %d still runs", pid)
					}
				}
				return nil
			})
			if err == nil {
				err = p.call(ctx, "session/close", obj{}, nil)
			}
		}
		if err == nil {
			err = t.awaitNoKin(ctx, answerWithin)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", e.name, err)
		}
	}
	return nil
}

// asNobody runs the server as an ordinary user.
func asNobody(t *target, cmd *exec.Cmd) error {
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534}
	cmd.Env = append(slices.Clone(cmd.Env), "TMPDIR=/tmp")
	return nil
}

func needsRoot() string {
	if os.Getuid() != 0 {
		return "needs root, to become somebody else"
	}
	return ""
}

// undumpable is a daemon whose environment and files are hidden from ordinary users.
func undumpable(args []string) error {
	if len(args) == 1 { // the daemon's parent
		cmd := exec.Command("/proc/self/exe", childArg, "undumpable", args[0], "daemon")
		cmd.Env = []string{}
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return cmd.Start()
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}

func undumpableDaemon(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	if err := p.call(ctx, "process/start", program("daemon", t.self, childArg, "undumpable", t.token), nil); err != nil {
		return err
	}
	if err := t.awaitKin(ctx, 1); err != nil {
		return err
	}
	hold(ctx, 500*time.Millisecond) // until only the daemon is left
	if err := t.closedTruly(p.call(ctx, "session/close", obj{}, nil)); err != nil {
		return err
	}
	return t.awaitNoKin(ctx, answerWithin)
}

func readEnviron(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	var result struct {
		ExitCode int
		Stdout   string
	}
	spy := []string{"/bin/sh", "-c", fmt.Sprintf("tr '\\0' '\\n' </proc/%d/environ; ls -l /proc/%d/fd", t.server.pid(), t.server.pid())}
	if err := p.call(ctx, "command/exec", obj{"command": spy, "cwd": "/"}, &result); err != nil {
		return err
	}
	if strings.Contains(result.Stdout, "hush") {
		return errors.New("a program of the same user has read the server's secrets in /proc")
	}
	return nil
}

// killed kills the server, and notes how many programs remain and how many the next server ends.
func killed(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	script := `(setsid env -i /bin/sleep $0 &) ; sleep $0; :`
	for i := range 3 {
		if err := p.call(ctx, "process/start", program(fmt.Sprint("d", i), "/bin/sh", "-c", script, t.token), nil); err != nil {
			return err
		}
	}
	if err := t.awaitKin(ctx, 9-3); err != nil {
		return err
	}
	t.server.kill()
	hold(ctx, time.Second)
	left := len(t.kin())
	next, err := t.serve(nil, t.args...)
	if err != nil {
		return err
	}
	defer next.kill()
	err = t.awaitNoKin(ctx, answerWithin)
	t.note("%d programs after SIGKILL, %d once the next server ran", left, len(t.kin()))
	return errors.Join(err, next.stop())
}

// stopped sends SIGTERM to the server. Either no program is left, or the server reports the failure.
func stopped(ctx context.Context, t *target) error {
	p, err := t.open(ctx, nil, nil)
	if err != nil {
		return err
	}
	if err := t.tree(ctx, p, "tree"); err != nil {
		return err
	}
	err = t.server.stop()
	if left := len(t.kin()); left > 0 && err == nil {
		return fmt.Errorf("exit code 0, and %d programs still run", left)
	}
	return err
}

func frozen(ctx context.Context, t *target) error {
	var peers []*peer
	for range 5 {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		peers = append(peers, p)
	}
	pid := t.server.pid()
	syscall.Kill(pid, syscall.SIGSTOP)
	t.onEnd(func() { syscall.Kill(pid, syscall.SIGCONT) })
	hold(ctx, 35*time.Second)
	syscall.Kill(pid, syscall.SIGCONT)
	hold(ctx, 3*time.Second)
	for _, p := range peers {
		if websocket.IsCloseError(p.ended(), websocket.CloseProtocolError) {
			return fmt.Errorf("the server, once continued, blamed its client: %w", p.ended())
		}
	}
	return t.othersGoOn(ctx)
}
