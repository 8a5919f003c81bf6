//go:build unix

// Package hold joins troupe serve with package internal/holder.
//
// Unless told otherwise, troupe serve becomes a holder in the init of this package, before most other packages of the binary are initialized, because
// a holder is small. Go initializes a package as soon as its imports are, in the order of import paths. So hold imports little, and
// not even log/slog.
//
// The holder starts its own program again, with the same arguments, as the server. The server parses the arguments, and tells what is wrong
// with them. The program is /proc/self/exe: the file of the holder, even if an installation has put another file at its path. So nobody changes the
// version of a server by killing it. SIGHUP to the holder does: see upgrade_linux.go of internal/holder.
package hold

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
)

// Flag is the flag of troupe serve, without its dashes, for a server without a holder.
const Flag = "no-holder"

// Check and Show are flags, without their dashes: with them troupe serve does not serve.
const Check, Show = "check-config", "show-config"

// Prefix begins the names of the environment variables with settings of troupe serve, and Variable is the name for Flag.
const Prefix, Variable = "TROUPE_SERVE_", "TROUPE_SERVE_NO_HOLDER"

// isStdio reports whether a value of --listen is for a server on stdio.
func isStdio(listen string) bool { return listen == "stdio" || listen == "stdio://" }

// yes reports whether a value of a flag is true. A value that is neither true nor false counts, too: the server says what is wrong with it.
func yes(value string) bool {
	is, err := strconv.ParseBool(value)
	return is || err != nil
}

// wanted reports whether a server with these arguments has a holder. A server on stdio has none: nobody can resume a session there.
func wanted(args []string, getenv func(string) string) bool {
	listens, says := false, false // the arguments say at what address, and whether there is a holder
	for _, arg := range args {
		switch name, value, _ := strings.Cut(arg, "="); {
		case arg == "--"+Flag, arg == "--"+Check, arg == "--"+Show, arg == "--help", arg == "-h":
			return false
		case (name == "--"+Check || name == "--"+Show || name == "--"+Flag) && yes(value):
			return false
		case name == "--"+Flag:
			says = true
		case isStdio(arg), name == "--listen" && isStdio(value):
			return false
		case name == "--listen":
			listens = true
		}
	}
	if off := getenv(Variable); off != "" && !says && yes(off) {
		return false
	}
	return listens || !isStdio(getenv(Prefix+"LISTEN"))
}

// inJSON reports whether the log of a server with these arguments is in JSON. A holder reads no YAML: of the file it knows a line that begins with the setting.
func inJSON(args []string, getenv func(string) string, readFile func(string) ([]byte, error)) bool {
	format, file := "", ""
	for i, arg := range args {
		for name, value := range map[string]*string{"--log-format": &format, "--config": &file} {
			if text, ok := strings.CutPrefix(arg, name+"="); ok {
				*value = text
			} else if arg == name && i+1 < len(args) {
				*value = args[i+1]
			}
		}
	}
	if format == "" {
		format = getenv(Prefix + "LOG_FORMAT")
	}
	if file == "" {
		file = getenv(Prefix + "CONFIG")
	}
	if format == "" && file != "" {
		text, _ := readFile(file) // of a file that cannot be read the server says so
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, "log-format:"); ok {
				value, _, _ = strings.Cut(value, "#")
				format = strings.Trim(value, " \t\r\n\"'")
			}
		}
	}
	return format == "json"
}

// Replaced is what Serves says after an upgrade.
const Replaced = holder.Replaced

// ErrLost means: the holder has ended.
var ErrLost = errors.New("the holder of this server has ended, and the programs end with it: start troupe serve again")

// A Server is the side of a server to its holder. A nil Server is that of a server without a holder.
type Server struct {
	holder      conn
	number      int // of the server, from 1
	incarnation string
	last        string              // how the last server has ended
	ended       time.Time           // when
	gap         time.Duration       // set by Serves: how long there was no server
	since       time.Time           // set by Serves: when this one began to serve
	sockets     map[string]*os.File // of the last server
	kept        map[string]bool     // the names of sockets of this server

	settings []byte // of the last server

	// Keeper is the holder, and Found what it has from the last server, as actors.Config wants them. Keeper is an actors/child.Holder.
	Keeper any
	Found  []holder.Found
}

// conn is what a Server needs of holder.Server, which exists on Linux only.
type conn interface {
	Keep(id string, files map[string]int) error
	Drop(id string, names ...string) error
	Lost() <-chan struct{}
	Signals() <-chan os.Signal
	Asked() <-chan struct{}
	Alive() error
	PID() int
	Refused() holder.Refusal
	Up() error
	Stop() error
}

// own is the id under which the holder keeps the descriptors of servers, and not of a program.
const own = ""

// socketName begins the names of listening sockets.
const socketName = "listen "

// First reports whether no server has served before this one.
func (s *Server) First() bool { return s == nil || s.number == 1 }

// Sockets returns the open sockets of the last server by the names from KeepSocket.
func (s *Server) Sockets() map[string]*os.File {
	if s == nil {
		return nil
	}
	return s.sockets
}

// KeepSocket has the holder keep a listening socket for the next server.
func (s *Server) KeepSocket(name string, fd int) error {
	if s == nil {
		return nil
	}
	if s.kept == nil {
		s.kept = make(map[string]bool)
	}
	s.kept[name] = true
	return s.holder.Keep(own, map[string]int{socketName + name: fd})
}

// DropSockets has the holder close the sockets of the last server at which this one does not listen.
func (s *Server) DropSockets() {
	if s == nil {
		return
	}
	for old := range s.sockets {
		if !s.kept[old] {
			s.holder.Drop(own, socketName+old) // after an error the holder has ended: see Gone
		}
	}
}

// Incarnation returns a word that is the same for all servers of a holder, and differs from those of all other holders; "": there is no holder, and
// programs end with this process.
func (s *Server) Incarnation() string {
	if s == nil {
		return ""
	}
	return s.incarnation
}

// incarnationVariable is the environment variable with Incarnation. Programs do not inherit it.
const incarnationVariable = "TROUPE_INCARNATION"

// takeSockets takes the sockets out of the files that the holder has kept.
func takeSockets(files map[string]int) map[string]*os.File {
	sockets := make(map[string]*os.File)
	for kept, fd := range files {
		if name, ok := strings.CutPrefix(kept, socketName); ok {
			sockets[name] = os.NewFile(uintptr(fd), name)
			delete(files, kept)
		}
	}
	return sockets
}

// settingsName is the name of the memory with the settings of the last server.
const settingsName = "settings"

// Settings returns the text of the file with the settings of the last server, if this server goes on with them: whatever was written to the file since
// counts for the next reload only. Nil: this server reads the file.
func (s *Server) Settings() []byte {
	if s == nil || s.last == Replaced {
		return nil
	}
	return s.settings
}

// proved is the time after which the settings of a server are those of the next: a little more than the probation of a new binary.
const proved = 6 * time.Second

// Requests returns the channel with the signals that the holder has got; nil: there is no holder.
func (s *Server) Requests() <-chan os.Signal {
	if s == nil {
		return nil
	}
	return s.holder.Signals()
}

// Gone returns a channel, closed at the end of the holder; nil: there is no holder.
func (s *Server) Gone() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.holder.Lost()
}

// Answer answers each question of the holder whether this server works, when roundTrip has returned. Answer returns at the end of the holder. A server
// that serves and does not answer is killed.
func (s *Server) Answer(roundTrip func()) {
	if s == nil {
		return
	}
	for range s.holder.Asked() {
		roundTrip()
		s.holder.Alive() // after an error the holder has ended: see Gone
	}
}

// Serves tells the holder that this server serves: if the server dies from now on, another one follows. Serves returns how the last server
// has ended, "" if there was none, and how long there was no server.
func (s *Server) Serves() (last string, gap time.Duration) {
	if s == nil {
		return "", 0
	}
	s.holder.Up() // after an error the holder has ended: see Gone
	s.since = time.Now()
	s.gap = s.since.Sub(s.ended).Round(time.Millisecond)
	return s.last, s.gap
}

// A State is what a server knows of its holder.
type State struct {
	PID     int           // of the holder
	Number  int           // of the server, from 1
	Last    string        // how the last server has ended; "": there was none
	Gap     time.Duration // how long there was no server, before this one
	Since   time.Time     // when this one began to serve
	Refused holder.Refusal
}

// State returns what the server knows of its holder, after Serves. Any goroutine may call State.
func (s *Server) State() State {
	return State{s.holder.PID(), s.number, s.last, s.gap, s.since, s.holder.Refused()}
}

// PID returns the process of the holder, or of this server if it has none.
func (s *Server) PID() int {
	if s == nil {
		return os.Getpid()
	}
	return s.holder.PID()
}

// Reload asks the holder for the next server, with the settings and the binary of now, as SIGHUP to the holder does.
func (s *Server) Reload() error { return syscall.Kill(s.holder.PID(), syscall.SIGHUP) }

// Stops tells the holder that this server ends on purpose, and that no other follows.
func (s *Server) Stops() {
	if s != nil {
		s.holder.Stop() // as with Up
	}
}
