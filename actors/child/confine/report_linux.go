package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/protocol"
)

// sendPlan sends the descriptor of the plan, and the socket to serve if there is one.
func sendPlan(socket *os.File, plan int, serve *os.File) (err error) {
	files := []int{plan}
	send := func() {
		if !nonblock.Control(socket, func(fd uintptr) {
			err = unix.Sendmsg(int(fd), []byte{0}, unix.UnixRights(files...), nil, unix.MSG_NOSIGNAL)
		}) {
			err = os.ErrClosed
		}
	}
	if serve == nil {
		send()
		return err
	}
	if !nonblock.Control(serve, func(fd uintptr) { files = append(files, int(fd)); send() }) {
		err = os.ErrClosed
	}
	return err
}

// awaitJail waits until the program of a jail runs, and returns the level of its sandbox, also if only the exec has failed. With keep, the report
// of a jail that confines files stays in the socket.
func awaitJail(socket *os.File, plan *jail.Plan, keep bool) (level string, err error) {
	flags := 0
	if keep && plan.Policy.Files {
		flags = unix.MSG_PEEK
	}
	r, err := readReport(socket, flags)
	if err != nil {
		return "", err
	}
	if plan.Policy.Files {
		level = levelOf(r)
	}
	if r.Failure != nil {
		return level, r.Failure
	}
	if plan.Policy.Files || plan.Serve {
		return level, nil
	}
	// The jail becomes the program: the socket ends with the exec.
	r, err = readReport(socket, 0)
	switch {
	case errors.Is(err, io.EOF):
		return "", nil
	case err != nil:
		return "", err
	case r.Failure != nil:
		return "", r.Failure
	}
	return "", errors.New("two reports of a jail")
}

// levelOf returns the level of a sandbox that confines files.
func levelOf(r jail.Report) string {
	if r.OldProc {
		return protocol.SandboxOldProc
	}
	return protocol.SandboxComplete
}

// Resume waits until a jail says whether its program runs. The server of the jail has died just before or after it sent the plan: a jail that has no plan
// after the time soon gets none, and any other answers in the time most. files: the jail confines files. The report of such a jail stays in the
// socket. Another jail becomes the program; then the socket ends, as it does at the end of the jail.
func Resume(socket *os.File, pid int, files bool, soon, most time.Duration) (level string, runs bool) {
	begun := time.Now()
	for wait := time.Millisecond; !planned(socket, pid); wait *= 2 {
		if time.Since(begun) > soon {
			return "", false
		}
		time.Sleep(wait)
	}
	defer socket.SetReadDeadline(time.Time{})
	socket.SetReadDeadline(begun.Add(most))
	if files {
		r, err := readReport(socket, unix.MSG_PEEK)
		return levelOf(r), err == nil && r.Failure == nil
	}
	for {
		r, err := readReport(socket, 0)
		switch {
		case errors.Is(err, io.EOF):
			return "", !named(pid)
		case err != nil || r.Failure != nil:
			return "", false
		}
	}
}

// planned reports whether a jail has got its plan.
func planned(socket *os.File, pid int) (yes bool) {
	nonblock.Control(socket, func(fd uintptr) {
		unread, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
		yes = err == nil && unread > 0 || nonblock.Poll(fd, unix.POLLIN) != 0 || named(pid)
	})
	return yes
}

// named reports whether a process has the name that a jail gives itself once it has its plan. A zombie has it, too.
func named(pid int) bool {
	name, _ := kernel.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(name)) == jail.Name
}

// readReport waits for the next report. flags are those of recv(2).
func readReport(socket *os.File, flags int) (r jail.Report, err error) {
	conn, err := socket.SyscallConn()
	if err != nil {
		return r, err
	}
	buf := make([]byte, jail.MaxReport)
	n := 0
	waitErr := conn.Read(func(fd uintptr) bool {
		n, err = recv(fd, buf, flags)
		return err != unix.EAGAIN
	})
	switch {
	case waitErr != nil:
		return r, waitErr
	case err != nil:
		return r, err
	case n == 0:
		return r, io.EOF
	}
	return r, json.Unmarshal(buf[:n], &r)
}

// ExplainFork explains the error of the fork of the jail.
func (j *Jail) ExplainFork(err error) error { return forkError(err, j.Plan) }

func forkError(err error, plan *jail.Plan) error {
	step, ok := errors.AsType[*fork.Error](err)
	switch {
	case ok:
		return &Error{Stage: fmt.Sprintf("start of the jail, %v", step.Step), Err: step.Errno}
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.ENOMEM), errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE):
		return err // as of any start
	case !plan.Policy.Files:
		return &Error{Stage: "start of the jail", Err: err}
	}
	if advice := namespaceAdvice(err); advice != "" {
		err = fmt.Errorf("%w (%s)", err, advice)
	}
	return &Error{Stage: "namespaces", Err: err}
}

// Explain explains the error of Enter: why the jail, which has ended with status, does not run the program.
func (j *Jail) Explain(err error, status syscall.WaitStatus) error {
	failure, ok := errors.AsType[*jail.Failure](err)
	if !ok {
		if errors.Is(err, io.EOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			err = errors.New("the jail has ended without a report")
			if status.Exited() && status.ExitStatus() == exitOfRuntime {
				err = fmt.Errorf("%w: it needs up to 8 threads (RLIMIT_NPROC of its user, limits.pids) and memory in its cgroup; raise the limit that is too low", err)
			}
			return &Error{Stage: "start of the jail", Err: err}
		}
		if _, ok := errors.AsType[*Error](err); ok || errors.Is(err, trees.ErrLimitRefused) {
			return err
		}
		return &Error{Stage: "start of the jail", Err: err}
	}
	errno := syscall.Errno(failure.Errno)
	if failure.Stage == jail.StageExec {
		return errno
	}
	var resource int
	if n, _ := fmt.Sscanf(failure.Stage, jail.StageLimit+" %d", &resource); n == 1 {
		for _, r := range trees.Rlimits(j.Limits) {
			if r.Resource == resource {
				return fmt.Errorf("%w.%s is %d: %w", trees.ErrLimitRefused, r.Name, r.Value, errno)
			}
		}
		return fmt.Errorf("%w: %s: %w", trees.ErrLimitRefused, failure.Stage, errno)
	}
	cause := errors.New(failure.Text)
	switch {
	case errno != 0 && strings.Contains(failure.Text, errno.Error()):
		cause = &told{failure.Text, errno}
	case errno != 0:
		cause = fmt.Errorf("%s: %w", failure.Text, errno)
	}
	return &Error{Stage: failure.Stage, Err: cause}
}

// exitOfRuntime is the exit code of a program whose Go runtime has failed.
const exitOfRuntime = 2
