package holder

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/sdnotify"
)

// An upgrade replaces the server by a server of the binary that is now at the path Config.Next. SIGHUP asks for one:
//
//   - the trial: the new binary runs with the arguments of the server, and finds out whether it can serve. Meanwhile the present server goes on, and
//     also after a trial that fails
//   - the switch: the present server is killed, and the new binary is the next server
//   - the probation: if the new server dies in its first seconds, or before it serves, the last binary comes back
//
// The holder itself stays what it is, unless the new binary has other messages: see takeover_linux.go.

const (
	// trialTime bounds a trial.
	trialTime = 10 * time.Second
	// probation is how old a new server that serves becomes until the binary from before is forgotten.
	probation = 5 * time.Second
	// trial begins the variable of a trial. The version of the messages follows.
	trial = "try:"
)

// An image is the file that a server executes.
type image struct {
	path string // for execve(2)
	fd   int    // path names this descriptor; below 0: none
	anew bool   // the holder becomes this file first
}

func (i image) close() {
	if i.fd >= 0 {
		unix.Close(i.fd)
	}
}

// upgrade is the state of an upgrade. The zero upgrade: there is none.
type upgrade struct {
	// The trial.
	to       image
	pid      int // 0: none is running
	pidfd    int
	deadline time.Time
	more     bool // SIGHUP came during the trial: the files may have changed since its begin

	kills  bool           // the last server was killed for the switch, and the next one has not begun
	end    syscall.Signal // came meanwhile, for the next server; 0: none
	before *image         // of the server before; nil: the present image has proved itself
	until  time.Time      // the end of the probation
}

// Trial returns the version of the messages of the holder, if a holder runs this process to find out whether it can serve. Such a process ends
// with exit code 0 if it can, with Anew if it can under a holder of its own version only, and otherwise says on stderr why not. A process calls Trial once, before Socket.
func Trial() (version int, ok bool) {
	text, ok := strings.CutPrefix(os.Getenv(variable), trial)
	if ok {
		os.Unsetenv(variable)
		version, _ = strconv.Atoi(text)
	}
	return version, ok
}

// env is the environment of a server or of a trial.
func (h *holder) env(value string) []string {
	return append(h.Env[:len(h.Env):len(h.Env)], variable+"="+value)
}

// tryNext begins a trial.
func (h *holder) tryNext() {
	u := &h.upgrade
	if h.ends() {
		return
	}
	if h.tell(sdnotify.Reloading(), "tries %s for an upgrade", h.Next); u.pid != 0 || u.kills {
		u.more = u.pid != 0
		return
	}
	fd, err := unix.Open(h.Next, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		h.noUpgrade("open %s: %v", h.Next, err)
		return
	}
	u.to = image{fmt.Sprint("/proc/self/fd/", fd), fd, false}
	u.pid, err = syscall.ForkExec(u.to.path, h.Argv, &syscall.ProcAttr{Env: h.env(trial + strconv.Itoa(Version)), Files: []uintptr{0, 2, 2}})
	if err != nil {
		u.pid = 0
		u.to.close()
		h.noUpgrade("run %s: %v", h.Next, err)
		return
	}
	if u.pidfd, err = unix.PidfdOpen(u.pid, 0); err != nil {
		u.pidfd = -1 // tried sees the end of the trial at the deadline
	}
	u.deadline = time.Now().Add(trialTime)
}

// tried looks whether the trial has ended, and begins the switch if the new binary can serve.
func (h *holder) tried() {
	u := &h.upgrade
	e, late := wait(u.pid, unix.WNOHANG), time.Now().After(u.deadline)
	if !e.Ended {
		if late {
			unix.Kill(u.pid, unix.SIGKILL) // the pid is the trial's until wait
			u.deadline = time.Now().Add(trialTime)
		}
		return
	}
	if u.pidfd >= 0 {
		unix.Close(u.pidfd)
	}
	u.pid = 0
	u.to.anew = e.Status.ExitStatus() == Anew
	can := e.Status == 0 || u.to.anew
	if !can {
		h.noUpgrade("%s cannot serve (%s): nothing changes", h.Next, ending(e.Status))
	}
	more := u.more
	u.more = false
	if !can || h.ends() { // the programs of a server that ends have their grace
		u.to.close()
		if more {
			h.tryNext()
		}
		return
	}
	h.prove() // an upgrade within the probation of the last
	before := h.image
	u.before, h.image = &before, u.to
	if h.pid == 0 { // the next server waits for its turn: see delay
		h.again, h.last, h.died = time.Now(), Replaced, 0
		return
	}
	u.kills = true
	unix.Kill(h.pid, unix.SIGKILL)
}

// switched ends a switch. A signal that came meanwhile counts now.
func (h *holder) switched() {
	s := h.upgrade.end
	if h.upgrade.kills, h.upgrade.end = false, 0; s != 0 {
		h.signal(s)
	}
}

// noUpgrade says why an upgrade has ended before its switch, also to the present server.
func (h *holder) noUpgrade(format string, args ...any) {
	why := fmt.Sprintf(format, args...)
	h.report([]string{sdnotify.Ready}, "no upgrade: %s", why)
	h.out = append(h.out, Message{Kind: Refused, Text: why}) // without a server, start drops it
}

// ends reports whether no other server follows the present one.
func (h *holder) ends() bool { return h.stop || h.killed }

// proved reports whether the present server has outlived its probation.
func (h *holder) proved() bool {
	u := &h.upgrade
	return u.before != nil && !u.kills && h.pid != 0 && !h.onProbation(time.Now())
}

// onProbation reports whether the image from before comes back if the server ends now.
func (h *holder) onProbation(now time.Time) bool {
	return h.upgrade.before != nil && !(h.served && now.After(h.upgrade.until))
}

// prove forgets the image from before.
func (h *holder) prove() {
	if u := &h.upgrade; u.before != nil {
		u.before.close()
		u.before = nil
	}
}

// goBack has the image from before come back, after the death of a new server in its probation.
func (h *holder) goBack() {
	u := &h.upgrade
	h.report(nil, "the server of %s does not run (%s): the last binary comes back", h.Next, h.last)
	h.image.close()
	h.image, u.before = *u.before, nil
}

// upgradeDue is when the upgrade needs a turn; zero: never.
func (h *holder) upgradeDue() time.Time {
	u := &h.upgrade
	switch {
	case u.pid != 0:
		return u.deadline
	case u.before != nil && h.served:
		return u.until
	}
	return time.Time{}
}
