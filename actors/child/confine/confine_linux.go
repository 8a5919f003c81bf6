// Package confine asks for jails and reads their reports. A child with a sandbox is a jail, which is this program again, with the
// client's program as its only child. See package jail. The pid of such a child is the jail's: the jail leads the session and
// the process group, and the program dies with the jail. All that the child needs from outside is set between the fork and the Plan.
//
// # Where to look
//
//   - confine_linux.go, prepare_linux.go, report_linux.go: a jail, from its plan to the report that the program runs
//   - binary_linux.go: the binary of jails
//   - try_linux.go, confine.go: whether the system can make jails; errors
package confine

import (
	"encoding/json"
	"fmt"
	"os"
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

// Jail is a jail on its way, with both ends of the socket between the jail and the server.
type Jail struct {
	Plan     *jail.Plan
	Limits   protocol.ProcessLimits // of the program
	Restrain func(pid int)          // limits the processes of the jail if Limits does not; may be nil
	Socket   *os.File               // the server's end; the caller closes Socket
	// Sending is called before the plan is sent: from then on the program may run, and a holder has Socket, too. Nil: there is no holder.
	Sending func()

	binary int // the file to execute; 0: /proc/self/exe, or closed here
	memory int // a file with the plan
	theirs int // the jail's end; -1: closed here
}

// New prepares the jail of a plan.
func New(plan *jail.Plan) (*Jail, error) { return newJail(plan, &jailBinary) }

// newJail prepares a jail that executes the binary of executable, unless the plan leaves files as they are.
func newJail(plan *jail.Plan, executable *ownBinary) (*Jail, error) {
	j := &Jail{Plan: plan, memory: -1, theirs: -1}
	if err := j.open(executable); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

// open opens all descriptors. After an error, Close closes the open ones.
func (j *Jail) open(executable *ownBinary) (err error) {
	if j.Plan.Policy.Files { // else the program may write to the binary anyway, if its user may
		if j.binary, err = executable.open(); err != nil {
			return binaryError(err, j.Plan)
		}
	}
	if j.memory, err = planFile(j.Plan); err != nil {
		return err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return trees.NoDescriptor(err)
	}
	j.theirs = pair[1]
	j.Socket, err = trees.OurFile(pair[0], "jail")
	return err
}

// Close closes everything but Socket.
func (j *Jail) Close() {
	j.Forked()
	if j.memory >= 0 {
		unix.Close(j.memory)
		j.memory = -1
	}
}

// Forked closes the files of the jail: the binary, and the jail's end of the socket. Only with that end closed does the server
// see the end of the jail.
func (j *Jail) Forked() {
	if j.binary > 0 {
		unix.Close(j.binary)
		j.binary = 0
	}
	if j.theirs >= 0 {
		unix.Close(j.theirs)
		j.theirs = -1
	}
}

// Attr is how the jail is forked with the descriptors 0 to 2 of its program.
func (j *Jail) Attr(theirs []uintptr) *fork.Attr {
	a := &fork.Attr{
		Path: "/proc/self/exe", Binary: j.binary, Argv: []string{jail.Name}, Env: jailEnv(j.Plan),
		Files: append(theirs[:3:3], uintptr(j.theirs)), Umask: -1, Blocked: jail.Blocked,
	}
	switch {
	case j.Plan.Policy.Files:
		a.Ambient = jail.Ambient
		a.Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS
		if !j.Plan.Policy.Network {
			a.Namespaces |= unix.CLONE_NEWNET
		}
	case j.Plan.Serve: // not for a jail that becomes a program, which would have them too
		a.Ambient = jail.AmbientToBecome
	}
	return a
}

// Enter prepares the jail with this pid, sends its plan, and serve unless nil, and waits until the program runs. level is
// the level of its sandbox, also if only the exec has failed; empty: the sandbox confines no files. See Explain for the error.
func (j *Jail) Enter(pid int, serve *os.File) (level string, err error) {
	if err := j.prepare(pid); err != nil {
		return "", err
	}
	if j.Sending != nil {
		j.Sending()
	}
	if err := sendPlan(j.Socket, j.memory, serve); err != nil {
		return "", err
	}
	return awaitJail(j.Socket, j.Plan, j.Sending != nil)
}

// jailEnv is the environment of a jail's runtime. A jail makes the sandbox, and then waits: one thread runs Go at a time,
// and nothing is ever collected. A jail that serves files is a usual program.
func jailEnv(plan *jail.Plan) []string {
	if plan.Serve {
		return []string{"GOMAXPROCS=2", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"} // no files of cgroups stay open
	}
	return []string{"GOMAXPROCS=1", "GOGC=off", "GODEBUG=containermaxprocs=0,updatemaxprocs=0"}
}

// Ending returns a function that says once how the program of an ended jail has ended. Then the function closes the socket.
func Ending(socket *os.File) func() (trees.Ending, bool) {
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

// lastReport returns the report of an ended jail about the end of its program; nil: there is none. The report stays in the socket, for the next server if a
// holder has the socket. The first report may still be there, too.
func lastReport(socket *os.File) (exit *jail.Exit) {
	buf := make([]byte, 4<<10)
	for {
		n, err := receive(socket, buf, unix.MSG_PEEK)
		var r jail.Report
		if err != nil || n == 0 || json.Unmarshal(buf[:n], &r) != nil || r.Exit != nil {
			return r.Exit
		}
		Drain(socket)
	}
}

// receive receives from a socket, without waiting.
func receive(socket *os.File, buf []byte, flags int) (n int, err error) {
	if !nonblock.Control(socket, func(fd uintptr) {
		n, err = recv(fd, buf, flags)
	}) {
		err = os.ErrClosed
	}
	return n, err
}

// recv is recv(2), without waiting.
func recv(fd uintptr, buf []byte, flags int) (int, error) {
	return kernel.Retry(func() (int, error) {
		n, _, err := unix.Recvfrom(int(fd), buf, flags|unix.MSG_DONTWAIT)
		return n, err
	})
}

// Drain removes the oldest report from the socket of a jail. Enter leaves the first report there for the next server.
func Drain(socket *os.File) { receive(socket, make([]byte, 1), 0) }

// MostFiles is how many descriptors a confined program may have, unless its client names a limit. The kernel counts the descriptors that a
// user has sent over sockets and nobody has received. It refuses to send more to whoever may not have as many open. So a program
// that may have fewer than the server cannot keep the server and its jails from sending. The distance is for threads of the program
// that send at the same moment, each up to 253.
func MostFiles() (uint64, error) {
	var own unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &own); err != nil {
		return 0, err
	}
	return own.Cur - min(own.Cur/4, 4096), nil
}

// planFile returns a file in memory with plan.
func planFile(plan *jail.Plan) (fd int, err error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return -1, err
	}
	fd, err = unix.MemfdCreate("plan", unix.MFD_CLOEXEC)
	if err != nil {
		return -1, trees.NoDescriptor(err)
	}
	for n := 0; len(text) > 0; text = text[n:] {
		if n, err = unix.Write(fd, text); err != nil {
			unix.Close(fd)
			return -1, fmt.Errorf("write the plan of a sandbox: %w", err)
		}
	}
	return fd, nil
}
