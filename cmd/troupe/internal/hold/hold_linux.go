package hold

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"path"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/sdnotify"
)

// trial is true if a holder runs this program to find out whether it can serve. anew: the holder has another version.
var trial, anew bool

// incarnation is what the holder has passed to this server; "": there is no holder.
var incarnation string

// lacks says what this system lacks for a holder; nil: nothing, or nobody wants a holder.
var lacks error

// socket is the descriptor of this server's socket to its holder; 0: there is no holder.
var socket int

// init makes this program a holder if its arguments say so. Neither main nor the init of most other packages runs then.
func init() {
	if len(os.Args) < 2 || os.Args[1] != "serve" {
		return
	}
	incarnation = os.Getenv(incarnationVariable)
	os.Unsetenv(incarnationVariable)
	// No program of the same user may attach to this process: the holder and each server have the descriptors of all programs, and a trial reads secrets.
	protect := func() { unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) } // fails for bad arguments only
	version, ok := holder.Trial()
	if ok {
		protect()
		if version < holder.Oldest {
			fmt.Fprintf(os.Stderr, "troupe serve: the holder speaks version %d, and this binary versions from %d on: start the server anew\n", version, holder.Oldest)
			os.Exit(1)
		}
		trial, anew = true, version != holder.Version
		return
	}
	state := holder.State()
	fd, ok := holder.Socket()
	if !ok && state == 0 {
		if !wanted(os.Args[2:], os.Getenv) {
			return
		}
		if lacks = holder.Probe(); lacks != nil {
			return
		}
	}
	protect()
	if !ok {
		os.Exit(hold(state))
	}
	socket = fd
	setName(holder.ServerName)
}

// readAll reads and closes a file from its beginning.
func readAll(fd int) ([]byte, error) {
	f := os.NewFile(uintptr(fd), settingsName)
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, 0, 1<<62))
}

// KeepSettings has the holder keep the text of the file with the settings of this server, once the server has proved itself: until then the settings from
// before may come back. failed is called with the error if there is no memory for the text.
func (s *Server) KeepSettings(text []byte, failed func(error)) {
	if s == nil {
		return
	}
	keep := func() {
		fd, err := unix.MemfdCreate("troupe-"+settingsName, unix.MFD_CLOEXEC)
		if err == nil {
			f := os.NewFile(uintptr(fd), settingsName)
			defer f.Close()
			if _, err = f.Write(text); err == nil {
				s.holder.Keep(own, map[string]int{settingsName: fd}) // fails at the end of the holder: see Gone
			}
		}
		if err != nil {
			failed(err)
		}
	}
	if s.First() {
		keep()
	} else {
		time.AfterFunc(proved, keep)
	}
}

// newIncarnation returns 8 random letters and digits. Not crypto/rand, which a holder would keep in memory.
func newIncarnation() string {
	const digits = "abcdefghijklmnopqrstuvwxyz234567"
	random := make([]byte, 8)
	unix.Getrandom(random, 0) // fails only before the machine has gathered randomness at its start, for larger buffers
	for i, b := range random {
		random[i] = digits[b%32]
	}
	return string(random)
}

// setName names the main thread, as ps shows the process.
func setName(name string) {
	text, _ := unix.ByteSliceFromString(name) // a name of Go's has no zero byte
	unix.Prctl(unix.PR_SET_NAME, uintptr(unsafe.Pointer(&text[0])), 0, 0, 0)
}

// hold is a holder, and returns its exit code. state is of the holder that this process was before; 0: it was none.
func hold(state int) int {
	if state == 0 || incarnation == "" { // "": of an earlier version
		incarnation = newIncarnation()
	}
	os.Setenv(incarnationVariable, incarnation)
	manager, err := sdnotify.Take() // before os.Environ
	if err != nil {
		log("%v", err)
	}
	c := holder.Config{
		Path: "/proc/self/exe", Argv: append([]string{holder.ServerName}, os.Args[1:]...), Env: os.Environ(), Log: log, Manager: manager,
		Self: os.Args, State: state,
	}
	if state == 0 {
		c.Next = installed()
	} else {
		setName(path.Base(os.Args[0])) // of execve it has that of a descriptor
	}
	code, err := holder.Run(c)
	if err != nil {
		fmt.Fprintln(os.Stderr, "troupe serve:", err)
	}
	return code
}

// installed returns the path of the command: where an upgrade finds its binary. A link stays a link, since an installation may change the link. With a
// controlling terminal installed returns "": SIGHUP is the end of the terminal then.
func installed() string {
	if tty, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err == nil {
		unix.Close(tty)
		return ""
	}
	self, err := os.Stat("/proc/self/exe")
	if err != nil {
		return ""
	}
	names := []string{os.Args[0]}
	if !strings.Contains(os.Args[0], "/") {
		names = nil
		for dir := range strings.SplitSeq(os.Getenv("PATH"), ":") {
			names = append(names, dir+"/"+os.Args[0])
		}
	}
	dir, _ := os.Getwd()
	for _, name := range names {
		if st, err := os.Stat(name); err == nil && os.SameFile(st, self) {
			if name[0] != '/' {
				name = dir + "/" + name
			}
			return name
		}
	}
	path, _ := os.Readlink("/proc/self/exe")
	return path
}

// log writes an error as the server logs. A holder waits for nobody: if nobody reads stderr, the line is lost. A pipe that is ready has
// room for a whole line (PIPE_BUF of pipe(7)).
func log(format string, args ...any) {
	form := "time=%s level=ERROR msg=%q\n"
	if inJSON(os.Args, os.Getenv, os.ReadFile) {
		form = `{"time":"%s","level":"ERROR","msg":%q}` + "\n" // %q is JSON for a text of printable characters, as all errors here are
	}
	line := fmt.Appendf(nil, form, time.Now().Format("2006-01-02T15:04:05.000Z07:00"), fmt.Sprintf(format, args...))
	stderr := []unix.PollFd{{Fd: 2, Events: unix.POLLOUT}}
	if n, err := unix.Poll(stderr, 0); err == nil && n == 1 && stderr[0].Revents == unix.POLLOUT {
		unix.Write(2, line)
	}
}

// Lacks says what this system lacks for a holder; nil: nothing.
func Lacks() error { return lacks }

// Trial reports whether this process is to find out whether it can serve, and not to serve. If it can, it calls Passed.
func Trial() bool { return trial }

// Passed ends a trial: this program can serve, and replaces the present server.
func Passed() {
	if anew {
		os.Exit(holder.Anew)
	}
	os.Exit(0)
}

// Attach returns the side of this server to its holder; nil: the server has none.
func Attach() (*Server, error) {
	if socket == 0 {
		return nil, nil
	}
	// A caught SIGPIPE ends no process. Otherwise each server would die at its first line if nobody reads stderr any more.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE)
	h, err := holder.Attach(socket)
	if err != nil {
		return nil, err
	}
	s := &Server{holder: h, number: h.Number, incarnation: incarnation, last: h.Last, ended: h.Ended}
	s.Keeper, s.Found = h, h.Found
	for _, f := range h.Found {
		if f.ID != own {
			continue
		}
		s.sockets = takeSockets(f.Files)
		if fd, ok := f.Files[settingsName]; ok {
			delete(f.Files, settingsName)
			if s.settings, err = readAll(fd); err != nil {
				return nil, fmt.Errorf("read the settings of the last server: %w", err)
			}
		}
	}
	return s, nil
}
