package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
)

// A child with a sandbox is a jail, which is this program again, with the client's program as its only child. See package
// jail. The pid of such a child is the jail's: the jail leads the session and the process group, and the program dies with
// the jail. All that the child needs from outside is set between the fork and the Plan.

// jailer is the server's side of a jail that confines files.
type jailer struct {
	socket *os.File
	level  string // of the sandbox
}

// forkJail forks a jail, and waits until its program runs, for b.after at most. The error ErrNoAnswer means: the
// jail was killed, but has not ended.
func (h *Host) forkJail(ctx context.Context, b *birth) (pid int, _ *jailer, err error) {
	spec := b.spec
	plan, err := planOf(b)
	if err != nil {
		return 0, nil, err
	}
	plan.Complete = h.completeSandbox
	n, err := makeJail(plan, &jailBinary)
	if err != nil {
		return 0, nil, err
	}
	defer n.close()
	defer func() {
		if err != nil || !plan.Policy.Files {
			n.ours.Close()
		}
	}()
	over := cutting(ctx, n.ours, b.after)
	defer over(&err)
	a := n.attr(b.theirs)
	a.Session, a.DeathSignal, a.Terminal = true, true, spec.TTY
	b.tree.Mark(a)
	pid, err = h.newborn(b, func(f *forker) (int, error) { return f.Start(a) })
	n.forked()
	if err != nil {
		return 0, nil, namespaceError(err, plan)
	}
	var level string
	if err = h.prepareJail(pid, spec, plan); err == nil {
		level, err = n.enter(spec.Serve)
	}
	switch {
	case err == nil && plan.Policy.Files:
		return pid, &jailer{n.ours, level}, nil
	case err == nil:
		return pid, nil, nil // the jail has become the program, or serves files as it is
	case errors.Is(err, os.ErrDeadlineExceeded):
		unix.Kill(pid, unix.SIGKILL)
		return pid, nil, noAnswer(fmt.Sprintf("sandbox and execution of %q in working directory %q", b.path, spec.Dir), b.after)
	}
	return 0, nil, jailError(err, spec, h.trees.Bury(pid))
}

// newJail is a jail on its way: its plan, and both ends of the socket between the jail and the server.
type newJail struct {
	plan   *jail.Plan
	binary int // the file to execute; 0: /proc/self/exe, or closed here
	memory int // a file with the plan
	ours   *os.File
	theirs int // the jail inherits it; -1: closed here
}

// makeJail prepares a jail that executes the binary of executable, unless the plan leaves files as they are.
func makeJail(plan *jail.Plan, executable *ownBinary) (*newJail, error) {
	n := &newJail{plan: plan, memory: -1, theirs: -1}
	if err := n.open(executable); err != nil {
		n.close()
		return nil, err
	}
	return n, nil
}

// open opens all descriptors. After an error, close closes those that are open.
func (n *newJail) open(executable *ownBinary) (err error) {
	if n.plan.Policy.Files { // else the program may write to the binary anyway, if its user may
		if n.binary, err = executable.open(); err != nil {
			return binaryError(err, n.plan)
		}
	}
	if n.memory, err = planFile(n.plan); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return trees.NoDescriptor(err)
	}
	n.theirs = pair[1]
	n.ours, err = trees.OurFile(pair[0], "jail")
	return err
}

// close closes everything but the server's end of the socket.
func (n *newJail) close() {
	n.forked()
	if n.memory >= 0 {
		unix.Close(n.memory)
		n.memory = -1
	}
}

// forked closes what the jail has by now: the binary, and the jail's end of the socket. Only with that end closed does the server
// see the end of the jail.
func (n *newJail) forked() {
	if n.binary > 0 {
		unix.Close(n.binary)
		n.binary = 0
	}
	if n.theirs >= 0 {
		unix.Close(n.theirs)
		n.theirs = -1
	}
}

// attr is how the jail is forked with the descriptors 0 to 2 of its program.
func (n *newJail) attr(theirs []uintptr) *fork.Attr {
	a := &fork.Attr{
		Path: "/proc/self/exe", Binary: n.binary, Argv: []string{jail.Name}, Env: jailEnv(n.plan),
		Files: append(theirs[:3:3], uintptr(n.theirs)), Umask: -1, Blocked: jail.Blocked,
	}
	switch {
	case n.plan.Policy.Files:
		a.Ambient = jail.Ambient
		a.Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if !n.plan.Policy.Network {
			a.Namespaces |= unix.CLONE_NEWNET
		}
	case n.plan.Serve: // not for a jail that becomes a program, which would have them too
		a.Ambient = jail.AmbientToBecome
	}
	return a
}

// enter sends the plan, and the socket to serve if there is one, and waits until the program runs. See awaitJail.
func (n *newJail) enter(serve *os.File) (level string, err error) {
	if err := sendPlan(n.ours, n.memory, serve); err != nil {
		return "", err
	}
	return awaitJail(n.ours, n.plan)
}

// jailEnv is the environment of a jail's runtime. A jail makes the sandbox, and then waits: one thread runs Go at a time,
// and nothing is ever collected. A jail that serves files is a usual program.
func jailEnv(plan *jail.Plan) []string {
	if plan.Serve {
		return []string{"GOMAXPROCS=2", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"} // no files of cgroups stay open
	}
	return []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
}

// endingOfJail returns a function that says once how the program of an ended jail has ended. Then it closes the socket.
func endingOfJail(socket *os.File) func() (trees.Ending, bool) {
	return func() (e trees.Ending, ok bool) {
		defer socket.Close()
		exit := lastReport(socket)
		if exit == nil {
			return e, false
		}
		return trees.Ending{
			Status: syscall.WaitStatus(exit.Status),
			Usage: unix.Rusage{
				Utime:  unix.NsecToTimeval((time.Duration(exit.UserUs) * time.Microsecond).Nanoseconds()),
				Stime:  unix.NsecToTimeval((time.Duration(exit.SystemUs) * time.Microsecond).Nanoseconds()),
				Maxrss: exit.MaxRSS,
			},
		}, true
	}
}

// lastReport returns what an ended jail has told of its program; nil: nothing.
func lastReport(socket *os.File) (exit *jail.Exit) {
	control(socket, func(fd uintptr) {
		buf := make([]byte, 4<<10)
		n, err := kernel.Retry(func() (int, error) { n, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); return n, err })
		var r jail.Report
		if err == nil && n > 0 && json.Unmarshal(buf[:n], &r) == nil {
			exit = r.Exit
		}
	})
	return exit
}
