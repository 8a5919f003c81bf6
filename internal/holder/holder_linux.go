package holder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/internal/nonblock"
	"github.com/b6f6fdd7/troupe/internal/sdnotify"
)

// Config describes the server of a holder.
type Config struct {
	Path    string   // of the binary of the first server
	Next    string   // of the binary of an upgrade; "": SIGHUP is passed on as any other signal
	Argv    []string // of the server
	Env     []string // of the server; the holder adds a variable, see Socket
	Log     func(format string, args ...any)
	Beat    time.Duration     // between two looks at the server; 0: 5 s
	Manager *sdnotify.Manager // nil: there is none
	Self    []string          // the arguments of the holder itself, for an upgrade that replaces it
	State   int               // see the function State; 0: this is a new holder
}

const (
	// After this many deaths in a row of servers that lived less than young, the next server waits, for pause at first and for maxPause at most.
	deaths   = 5
	young    = 10 * time.Second
	pause    = time.Second
	maxPause = 30 * time.Second
	// killTime bounds how long the end of a holder waits for killed programs.
	killTime = 10 * time.Second
	// maxNames bounds the shared names of descriptors.
	maxNames = 64
	// While maxOut messages wait for the server, the holder reads no more of the server: each may have an answer.
	maxOut = 1024
)

// kid is a set of descriptors under an id, of a program or of the server itself. There may be thousands, and each is small.
type kid struct {
	pid   int
	end   *End // nil: the program was not reaped
	note  string
	files []file
}

type file struct {
	name string
	fd   int
}

// find returns the index of a name in the files; below 0: there is none.
func (k *kid) find(name string) int {
	return slices.IndexFunc(k.files, func(f file) bool { return f.name == name })
}

// remove closes a file.
func (k *kid) remove(i int) {
	unix.Close(k.files[i].fd)
	k.files = slices.Delete(k.files, i, i+1)
}

// holder is the state of a holder. A single goroutine, on the main thread, uses the state.
type holder struct {
	Config
	kids  map[string]*kid
	names map[string]string // of descriptors: programs have the same ones

	woken int // an eventfd, written to when signals or messages of the server wait
	place int // a descriptor with the number of each server's socket; in the holder, a copy of woken keeps the number taken

	// The present server; pid 0: there is none.
	pid    int
	pidfd  int
	socket int       // in non-blocking mode
	full   bool      // messages of the server wait until there is room for their answers
	hungUp bool      // the server has closed the other end
	out    []Message // not sent yet: Hello, Kept, Ready, Ask, signals, and answers to Reap
	number uint64    // of the server, from 1

	last    string    // how the last server ended
	ended   int64     // when the last server ended: see boottime
	up      bool      // a server has served
	stop    bool      // the server has said Stop
	killed  bool      // a signal asked for the end
	began   time.Time // of the present server
	served  bool      // the present server has
	died    int       // deaths in a row: see delay
	image   image     // of the present server, or else of the next
	upgrade upgrade
	watch   watch
	sign    time.Time // of life, the next one
	again   time.Time // the next server starts then; zero: a server runs
	busy    bool      // the last wait was short
	buf     []byte
}

// Run is a holder from its begin to its end. Run returns the exit code for the process: the exit code of the last server, and 128+n if
// signal n has killed the last server. A process calls Run once, on its main thread. Run keeps the thread, because the programs die with
// the thread.
func Run(c Config) (code int, err error) {
	c.Beat = cmp.Or(c.Beat, 5*time.Second)
	runtime.LockOSThread()
	runtime.GOMAXPROCS(1) // small counts more than fast here
	debug.SetGCPercent(25)
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 1, fmt.Errorf("holder: become the parent of orphans: %w", err)
	}
	h := &holder{Config: c, kids: make(map[string]*kid), names: make(map[string]string), pidfd: -1, socket: -1, buf: newBuffer(), image: image{c.Path, -1, false}}
	if c.State > 0 {
		if err := h.restore(c.State); err != nil {
			return 1, err
		}
	}
	if h.woken, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return 1, fmt.Errorf("holder: eventfd: %w", err)
	}
	defer unix.Close(h.woken)
	// A server inherits the descriptors that this process has inherited, under their numbers. So its socket gets a free number.
	if h.place, err = unix.FcntlInt(uintptr(h.woken), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return 1, fmt.Errorf("holder: descriptor for the servers: %w", err)
	}
	defer unix.Close(h.place)
	if signal.Ignored(syscall.SIGHUP) { // by nohup(1)
		h.Next = ""
	}
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, holderSignals...)
	defer signal.Stop(signals)
	forward := make(chan os.Signal, cap(signals))
	go func() {
		for s := range signals {
			select {
			case forward <- s:
			default: // so many wait already
			}
			unix.Write(h.woken, one[:])
		}
	}()
	if h.up {
		blocked := signalSet() // by become
		unix.PthreadSigmask(unix.SIG_UNBLOCK, &blocked, nil)
		h.again = time.Now()
	} else if err := h.start(); err != nil {
		return 1, err
	}
	for {
		status, ended := h.turn(forward)
		if ended && (h.stop || h.killed || !h.up) {
			h.killAll()
			return exitCode(status), nil
		}
	}
}

// exitCode is the exit code of a shell for a wait status.
func exitCode(s syscall.WaitStatus) int {
	if s.Signaled() {
		return 128 + int(s.Signal())
	}
	return s.ExitStatus()
}

// brief is how long a busy holder waits without telling Go's scheduler.
const brief = 2 * time.Millisecond

// wait is poll(2). After each wait of which Go's scheduler hears, the scheduler wakes its monitor thread, sysmon (package nonblock): under many starts a second sysmon took
// nearly half of the holder's CPU. So while messages come one after the other, the scheduler hears only of waits longer than brief. During brief nothing else of this
// process runs.
func (h *holder) wait(fds []unix.PollFd, timeout int) error {
	if h.busy && (timeout < 0 || timeout > int(brief.Milliseconds())) {
		if n, err := nonblock.Wait(fds, brief); n > 0 || err != nil {
			return err
		}
	}
	began := time.Now()
	_, err := unix.Poll(fds, timeout)
	h.busy = time.Since(began) < brief
	return err
}

// turn waits for something to do, and acts. ended reports the end of the server, with the status.
func (h *holder) turn(signals <-chan os.Signal) (status syscall.WaitStatus, ended bool) {
	const none = -1 // poll(2) passes over it
	const woken, server, socket, trial = 0, 1, 2, 3
	poll := [...]unix.PollFd{
		woken:  {Fd: int32(h.woken), Events: unix.POLLIN},
		server: {Fd: none, Events: unix.POLLIN},
		socket: {Fd: none, Events: unix.POLLOUT},
		trial:  {Fd: none, Events: unix.POLLIN},
	}
	h.live(time.Now())
	if h.pid != 0 {
		poll[server].Fd = int32(h.pidfd)
		if len(h.out) > 0 && !h.hungUp { // else poll would return at once
			poll[socket].Fd = int32(h.socket)
		}
	}
	if h.upgrade.pid != 0 {
		poll[trial].Fd = int32(h.upgrade.pidfd)
	}
	timeout := -1
	if due := h.due(); !due.IsZero() {
		timeout = int(max(time.Until(due).Milliseconds()+1, 0))
	}
	if h.full && len(h.out) < maxOut {
		timeout = 0
	}
	if err := h.wait(poll[:], timeout); err != nil && err != unix.EINTR {
		h.Log("poll: %v", err)
		time.Sleep(pause) // a holder never ends by itself: its programs would die
	}
	var caught []os.Signal
	if poll[woken].Revents != 0 {
		caught = h.caught(signals)
	}
	if h.pid != 0 { // after the signals were caught: an Up from before a signal counts for the signal
		var err error
		if h.full, err = h.read(); err != nil {
			h.Log("%v: the server is killed", err)
			unix.Kill(h.pid, unix.SIGKILL)
		}
	}
	for _, s := range caught {
		h.signal(s.(syscall.Signal))
	}
	if h.upgrade.pid != 0 {
		h.tried()
	} else if h.proved() {
		h.prove()
	}
	switch {
	case h.pid == 0 && h.killed:
		return syscall.WaitStatus(syscall.SIGTERM), true
	case h.pid == 0 && time.Now().After(h.again):
		if err := h.start(); err != nil {
			h.Log("%v", err)
			if h.again = time.Now().Add(maxPause); h.upgrade.before != nil {
				h.again = time.Now()
				h.goBack()
			} else {
				h.switched()
			}
		}
	case h.pid != 0:
		h.look(time.Now())
		h.write()
		if poll[server].Revents != 0 {
			return h.reapServer()
		}
	}
	return 0, false
}

// due is when the holder has something to do by itself; zero: never.
func (h *holder) due() (first time.Time) {
	all := [...]time.Time{h.sign, h.again, {}}
	if h.pid != 0 {
		all[1] = h.upgradeDue()
	}
	if h.watched() {
		all[2] = h.watch.next
	}
	for _, t := range all {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// caught returns the signals that wait.
func (h *holder) caught(signals <-chan os.Signal) (all []os.Signal) {
	var drained [8]byte
	unix.Read(h.woken, drained[:])
	for {
		select {
		case s := <-signals:
			all = append(all, s)
		default:
			return all
		}
	}
}

// signal passes a signal on, as a message. A terminal and a service manager may send the server the same signal themselves. The server could
// not tell a second such signal from one that came twice. A server that starts has no programs yet, and a signal ends it. SIGQUIT is
// for a server that may read no messages: it prints its stacks, and ends. SIGHUP asks for an upgrade. A server that was killed for an upgrade cannot end
// its programs in order, so the next server does, unless the holder becomes another program before.
func (h *holder) signal(s syscall.Signal) {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
		if h.upgrade.kills && !h.image.anew {
			h.upgrade.end = s
			return
		}
		h.stopping()
		h.killed = true
	}
	switch {
	case s == syscall.SIGHUP && h.up && h.Next != "":
		h.tryNext()
	case h.pid == 0:
	case s == syscall.SIGQUIT || !h.up:
		unix.Kill(h.pid, s) // the pid is the server's until reapServer
	default:
		h.out = append(h.out, Message{Kind: Signal, Number: uint64(s)})
	}
}

// start starts a server, and queues everything kept for the server. For a server with other messages the holder becomes another program.
func (h *holder) start() error {
	if h.image.anew {
		return h.become()
	}
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("holder: socket for the server: %w", err)
	}
	defer unix.Close(fds[1])
	if err = unix.SetNonblock(fds[0], true); err == nil {
		err = unix.Dup3(fds[1], h.place, 0) // inherited
	}
	if err == nil {
		h.pid, err = syscall.ForkExec(h.image.path, h.Argv, &syscall.ProcAttr{Env: h.env(strconv.Itoa(h.place)), Files: []uintptr{0, 1, 2}})
	}
	unix.Dup3(h.woken, h.place, unix.O_CLOEXEC)
	if err == nil {
		if h.pidfd, err = unix.PidfdOpen(h.pid, 0); err != nil {
			err = fmt.Errorf("pidfd_open: %w", err)
		}
	}
	if err != nil {
		if h.pid != 0 {
			unix.Kill(h.pid, unix.SIGKILL)
			wait(h.pid, 0)
			h.pid = 0
		}
		unix.Close(fds[0])
		return fmt.Errorf("holder: start the server %s: %w", h.image.path, err)
	}
	h.began, h.served = time.Now(), false
	h.upgrade.until = h.began.Add(probation)
	h.watch = watch{next: h.began.Add(h.Beat)}
	h.socket, h.full, h.hungUp, h.again = fds[0], false, false, time.Time{}
	h.number++
	h.out = []Message{{
		Kind: Hello, Number: Version, PID: int(h.number), Text: clip(h.last), Time: h.ended, Names: []string{"bell"}, files: []int{h.woken},
	}}
	h.out = append(append(h.out, h.kept()...), Message{Kind: Ready})
	h.switched()
	return nil
}

// kept returns the messages about everything that a new server finds.
func (h *holder) kept() (all []Message) {
	for _, id := range slices.Sorted(maps.Keys(h.kids)) {
		all = append(all, h.kids[id].kept(id)...)
	}
	return all
}

// kept returns the messages about an id for a new server.
func (k *kid) kept(id string) (all []Message) {
	for files := k.files; ; files = files[MaxFiles:] {
		m := Message{Kind: Kept, ID: id, PID: k.pid, Text: k.note}
		if k.end != nil {
			m.End = *k.end
		}
		for _, f := range files[:min(len(files), MaxFiles)] {
			m.Names, m.files = append(m.Names, f.name), append(m.files, f.fd)
		}
		if all = append(all, m); len(files) <= MaxFiles {
			return all
		}
	}
}

// write sends messages until the socket is full.
func (h *holder) write() {
	for len(h.out) > 0 {
		err := send(h.socket, &h.out[0])
		switch {
		case errors.Is(err, unix.EAGAIN):
			return
		case errors.Is(err, unix.ETOOMANYREFS):
			time.Sleep(time.Millisecond)
			return
		case err != nil:
			h.out = nil // the server has ended
			return
		}
		h.out = h.out[1:]
	}
	h.out = nil
}

// read takes messages of the server, while there is room for their answers, and reports whether the room was used up. After an error the
// server speaks another protocol.
func (h *holder) read() (full bool, err error) {
	for !h.hungUp {
		if len(h.out) >= maxOut {
			return true, nil
		}
		m, err := receive(h.socket, h.buf)
		switch {
		case err == nil:
			h.do(m)
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case err == errEnd:
			h.hungUp = true
		default:
			return false, err
		}
	}
	return false, nil
}

// do obeys a message. A repeated message changes nothing.
func (h *holder) do(m Message) {
	k := h.kids[m.ID]
	if k == nil && (m.Kind == Keep || m.Kind == Born) {
		k = new(kid)
		h.kids[m.ID] = k
	}
	switch m.Kind {
	case Keep:
		if m.Text != "" {
			k.note = m.Text
		}
		k.files = slices.Grow(k.files, len(m.Names))
		for i, name := range m.Names {
			if old := k.find(name); old >= 0 {
				k.remove(old)
			}
			k.files = append(k.files, file{h.intern(name), m.files[i]})
		}
	case Drop:
		for _, name := range m.Names {
			if k != nil && k.find(name) >= 0 {
				k.remove(k.find(name))
			}
		}
	case Born:
		k.pid = m.PID
	case Reap, Look:
		h.reap(k, m)
	case Forget:
		h.forget(m.ID)
	case Up:
		h.up, h.served = true, true
		h.watch.heard()
		h.serves()
		trim()
	case Alive:
		h.watch.heard()
	case Stop:
		h.stopping()
		h.stop = true
		h.forget("") // the address is free for others once the server closes its socket, although a thread of the server may hang
	default:
		h.Log("the server has sent a message of kind %d, which a holder does not know", m.Kind)
		closeAll(m.files)
	}
}

// forget closes everything of an id.
func (h *holder) forget(id string) {
	if k := h.kids[id]; k != nil {
		for _, f := range k.files {
			unix.Close(f.fd)
		}
		delete(h.kids, id)
	}
}

// intern returns the shared string for a name, as long as there are few names.
func (h *holder) intern(name string) string {
	if one, ok := h.names[name]; ok {
		return one
	}
	if len(h.names) < maxNames {
		h.names[name] = name
	}
	return name
}

// reap answers Reap and Look. A reaped program keeps its end.
func (h *holder) reap(k *kid, m Message) {
	answer := Message{Kind: Reaped, ID: m.ID, PID: m.PID}
	switch {
	case m.ID == "" && m.PID > 0 && m.PID != h.upgrade.pid: // a trial is no orphan
		answer.End = wait(m.PID, unix.WNOHANG)
	case k == nil || k.pid <= 0:
	case k.end != nil:
		answer.PID, answer.End = k.pid, *k.end
	case m.Kind == Look:
		answer.PID, answer.End = k.pid, wait(k.pid, unix.WNOHANG|unix.WNOWAIT)
	default:
		answer.PID, answer.End = k.pid, wait(k.pid, unix.WNOHANG)
		if answer.End.Ended {
			k.end = new(answer.End)
		}
	}
	h.out = append(h.out, answer)
}

// wait reaps a child; with WNOWAIT of waitid(2) the child stays a zombie. The zero End means: the child has not ended, or pid is no child.
func wait(pid, options int) (e End) {
	got, status, usage, err := kernel.Wait(unix.P_PID, pid, unix.WEXITED|options)
	if err != nil || got != pid {
		return End{}
	}
	return End{Ended: true, Status: status, User: usage.Utime.Nano(), System: usage.Stime.Nano(), MaxRSS: usage.Maxrss << 10}
}

// reapServer looks whether the server has ended. If so, reapServer takes the last messages of the server, and sets the time of the next start.
func (h *holder) reapServer() (status syscall.WaitStatus, ended bool) {
	e := wait(h.pid, unix.WNOHANG)
	if !e.Ended {
		return 0, false
	}
	for more := true; more; { // the socket has all messages, and nobody sends any more
		h.out = nil // nobody reads the answers
		var err error
		if more, err = h.read(); err != nil {
			h.Log("%v", err)
		}
	}
	unix.Close(h.socket)
	unix.Close(h.pidfd)
	h.last = cmp.Or(h.watch.hangs, ending(e.Status))
	pid, now, u := h.pid, time.Now(), &h.upgrade
	h.pid, h.pidfd, h.socket, h.out, h.ended = 0, -1, -1, nil, boottime()
	switch h.again = now; {
	case u.kills:
		h.last = Replaced
	case h.stop || h.killed || !h.up:
	case h.onProbation(now):
		h.goBack()
	default:
		delay := h.delay(e.Status, now)
		h.again = now.Add(delay)
		h.report(nil, "the server, process %d, has died (%s); the next one starts in %v", pid, h.last, delay)
	}
	return e.Status, true
}

// ending says how a process has ended.
func ending(s syscall.WaitStatus) string {
	if s.Signaled() {
		return "killed by " + unix.SignalName(s.Signal())
	}
	return "exit code " + strconv.Itoa(s.ExitStatus())
}

// delay returns how long the next server waits after the death of the present one: nothing, unless many servers in a row have died young. A server
// that serves and gets SIGKILL does not count: whoever sends SIGKILL, be it the kernel for want of memory, has found a server that works. The pauses of
// a server that gets SIGKILL while it starts do not grow: on a busy machine a start takes long.
func (h *holder) delay(s syscall.WaitStatus, now time.Time) time.Duration {
	killed := s.Signaled() && s.Signal() == syscall.SIGKILL
	switch {
	case killed && h.served:
		h.died = 0
	case now.Sub(h.began) >= young:
		h.died = 1
	default:
		h.died++
	}
	switch n := h.died - deaths; {
	case n < 0:
		return 0
	case killed:
		return pause
	default:
		return min(pause<<min(n, 10), maxPause)
	}
}

// killAll kills all programs of a server that has ended, and their descendants: the kernel gives orphans to the holder. After killTime the
// kernel has to do the rest, because the programs die with the holder.
func (h *holder) killAll() {
	for end := time.Now().Add(killTime); time.Now().Before(end); time.Sleep(time.Millisecond) {
		for {
			pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
			if err == unix.ECHILD {
				return
			}
			if pid <= 0 && err != unix.EINTR {
				break
			}
		}
		// Children of this process, not reaped: none of the pids is another process's.
		list, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", unix.Gettid()))
		for text := range strings.FieldsSeq(string(list)) {
			if pid, err := strconv.Atoi(text); err == nil {
				unix.Kill(pid, unix.SIGKILL)
			}
		}
	}
	h.Log("programs are left that do not end")
}
