package jail

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/kernel"
)

// served is the plan of a jail that serves files; nil: this program is no such jail. servedOn is its socket.
var (
	served   *Plan
	servedOn int
)

// Serving returns the socket that this program serves files on, as a jail. Each thread that makes calls for the client calls
// lock first, and is never used for anything else. With otherUser, the user of the jail is not the server's. ok is false if the
// program is no such jail. The package that serves calls Serving in its init, and if ok, its init never returns.
func Serving() (fd int, lock func() error, otherUser, ok bool) {
	if served == nil {
		return 0, nil, false, false
	}
	return servedOn, func() error { return lockThread(served) }, served.User != nil, true
}

// run is a jail. run returns only in a jail that serves files.
func run() {
	if kind, err := unix.GetsockoptInt(descriptor, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		fmt.Fprintf(os.Stderr, "%s: the server runs this for a program in a sandbox, and nobody else can: use troupe run --sandbox\n", Name)
		os.Exit(2)
	}
	unix.CloseOnExec(descriptor)
	plan, err := receive()
	if err == nil {
		err = begin(plan)
	}
	if err != nil {
		report(Report{Failure: failureOf(err), OldProc: plan != nil && plan.oldProc})
		syscall.Exit(1)
	}
}

// begin does all of plan. begin returns nil only in a jail that serves files.
func begin(plan *Plan) error {
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fails for bad arguments only
	name, _ := unix.ByteSliceFromString(Name)
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&name[0])), 0, 0, 0)
	if err := become(plan); err != nil {
		return err
	}
	if plan.Policy.Files {
		ignoreFaults()
		// The server has put this process into its cgroup. Without cgroup namespaces the program sees the name of its cgroup.
		if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil && err != unix.EINVAL {
			return failed("cgroup namespace", err)
		}
		if err := enter(plan); err != nil {
			return err
		}
		if err := checkDir(plan); err != nil {
			return err
		}
		if err := ownNull(); err != nil {
			return err
		}
	}
	if plan.Serve {
		served = plan // and Ready reports
		return secure(plan)
	}
	if !plan.Policy.Files {
		return replace(plan)
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("open of "+os.DevNull, err)
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals, forwarded...)
	if err := lock(plan); err != nil {
		return err
	}
	program, err := start(plan)
	if err != nil {
		return err
	}
	for fd := range 3 { // only the program has its streams now
		unix.Dup3(null, fd, 0)
	}
	if !report(Report{OldProc: plan.oldProc}) {
		syscall.Exit(1)
	}
	go forward(signals, program)
	report(Report{Exit: reap(program)})
	syscall.Exit(0)
	return nil
}

// For each of the descriptors 0 to 2 that is the server's /dev/null, ownNull opens /dev/null of the view instead. The server's is on a writable mount,
// where a program of root, the owner of the device, could change its mode for the whole system.
func ownNull() error {
	for fd := range 3 {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFCHR || uint64(stat.Rdev) != unix.Mkdev(1, 3) {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err != nil {
			return failed("open of "+os.DevNull, err)
		}
		own, err := unix.Open(os.DevNull, flags&unix.O_ACCMODE|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Dup3(own, fd, 0)
			unix.Close(own)
		}
		if err != nil {
			return failed("open of "+os.DevNull, err)
		}
	}
	return nil
}

// receive waits for the Plan.
func receive() (*Plan, error) {
	var data [1]byte
	oob := make([]byte, unix.CmsgSpace(2*4))
	oobn := 0
	n, err := kernel.Retry(func() (n int, err error) {
		n, oobn, _, _, err = unix.Recvmsg(descriptor, data[:], oob, unix.MSG_CMSG_CLOEXEC)
		return n, err
	})
	if err == nil && n == 0 {
		syscall.Exit(1) // the server is gone, or has given up
	}
	if err != nil {
		return nil, failed("plan", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(messages) != 1 {
		return nil, failed("plan", errors.Join(err, unix.EBADMSG))
	}
	files, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(files) == 0 {
		return nil, failed("plan", errors.Join(err, unix.EBADMSG))
	}
	text, err := readPlan(files[0])
	if err != nil {
		return nil, failed("plan", err)
	}
	plan := new(Plan)
	if err := json.Unmarshal(text, plan); err != nil {
		return nil, failed("plan", err)
	}
	if plan.Serve {
		if len(files) != 2 {
			return nil, failed("plan", unix.EBADMSG)
		}
		servedOn = files[1]
	}
	return plan, nil
}

func readPlan(fd int) ([]byte, error) {
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return nil, err
	}
	text := make([]byte, stat.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil {
		return nil, err
	}
	return text[:n], nil
}

// report sends r, and returns false if the server is gone.
func report(r Report) bool {
	text := r.packet()
	_, err := kernel.Retry(func() (int, error) { return 0, unix.Sendmsg(descriptor, text, nil, nil, unix.MSG_NOSIGNAL) })
	return err == nil
}

// packet is r as JSON, of at most MaxReport bytes.
func (r Report) packet() []byte {
	if r.Failure != nil {
		r.Failure = r.Failure.clip()
	}
	text, _ := json.Marshal(r) // has numbers and strings only
	return text
}

// become gives this process the user and the umask of plan. The server has mapped the ids already.
func become(plan *Plan) error {
	if plan.Umask != nil {
		unix.Umask(int(*plan.Umask))
	}
	u := plan.User
	if u == nil {
		return nil
	}
	groups := make([]int, len(u.Groups))
	for i, g := range u.Groups {
		groups[i] = int(g)
	}
	// Package syscall changes all threads of the runtime.
	if err := syscall.Setgroups(groups); err != nil {
		return failed("setgroups", err)
	}
	if err := syscall.Setresgid(int(u.GID), int(u.GID), int(u.GID)); err != nil {
		return failed("setresgid", err)
	}
	if err := syscall.Setresuid(int(u.UID), int(u.UID), int(u.UID)); err != nil {
		return failed("setresuid", err)
	}
	// A change of ids clears the parent death signal, and makes root the owner of /proc/self.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return failed("parent death signal", err)
	}
	if hungUp() {
		syscall.Exit(1)
	}
	// A change of ids sets the dumpable flag to fs.suid_dumpable. If that is 1, the program could read and write the jail's memory.
	unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) // fails for bad arguments only
	return nil
}

// hungUp reports whether the server is gone.
func hungUp() bool {
	fds := []unix.PollFd{{Fd: descriptor}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&unix.POLLHUP != 0
}

// checkDir compares the working directory with the directory that the server has allowed.
func checkDir(plan *Plan) error {
	if plan.DirIno == 0 {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(".", &stat); err != nil {
		return failed("working directory", err)
	}
	if stat.Dev != plan.DirDev || stat.Ino != plan.DirIno {
		return &Failure{Stage: "working directory", Text: fmt.Sprintf("%s has been exchanged during the start: try again, or stop what moves it", plan.Dir)}
	}
	return nil
}
