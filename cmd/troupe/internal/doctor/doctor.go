//go:build unix

// Package doctor says whether a machine is fit for troupe, and which limits to raise. Look collects the facts; Check
// judges them without any input or output.
package doctor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Status is the result of a check.
type Status string

const (
	OK   Status = "ok"
	Warn Status = "warn" // something does not work, or less well
	Fail Status = "fail" // troupe does not work
)

// An About says what a check is about.
type About string

const (
	Machine About = "machine" // where the command runs, as the place of a server
	Server  About = "server"  // the chosen one, perhaps on another machine
)

// A Line is the result of a check.
type Line struct {
	About  About  `json:"about"`
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`            // the present value or state
	Advice string `json:"advice,omitempty"` // the next step for the person; "" with OK
}

// Facts are the facts about a machine and a server. A number below 0 is unknown: the system has no such limit, or
// does not tell.
type Facts struct {
	FilesSoft, FilesHard           int64 // RLIMIT_NOFILE
	Processes                      int64 // RLIMIT_NPROC of this user
	PIDMax                         int64 // processes and threads of the machine
	PTYMax, PTYUsed                int64
	InotifyWatches, InotifyHandles int64

	Containment   string   // the best working way here: cgroup, marker or group
	NoCgroup      string   // why not cgroup; "": cgroup works
	Shared        string   // why programs share the limits of processes with the server; "": they do not
	NoLimits      []string // controllers of cgroup v2 missing for a server: cpu, memory, pids
	WhyNoLimits   string   // why one of NoLimits is missing
	NoHolder      string   // what the system lacks for programs that outlive their server; "": nothing
	Sandbox       string   // why programs cannot be confined, and what helps; "": they can be
	SandboxLevel  string   // as protocol.SandboxInfo.Level
	Landlock      int      // the ABI of Landlock; 0: none
	SandboxNotes  []string // protections that every sandbox here lacks
	Root          bool     // this user may run programs as other users
	Port          Port
	RuntimeDir    string // of the user's own server
	RuntimeError  string // why the directory is not usable; "": usable
	Config        string // path of the config file; "": there is none
	ConfigError   string
	Target        string // the chosen server, for people
	Local         bool   // the chosen server is the user's own
	ServerError   string // why the chosen server cannot be reached
	Server        *protocol.ServerInfoResult
	ClientVersion string
}

// Port is who listens at the default port of troupe serve.
type Port struct {
	Address string
	Troupe  string // version of the troupe server there
	Other   string // another program is there, or the reason why nothing can listen there
}

// filesEach is how many descriptors a program on pipes takes in the server: three streams, the process and its cgroup. Its holder needs one less.
const filesEach = 5

// Below these limits, doctor warns.
const (
	fewFiles     = 16_384
	tooFewFiles  = 256
	fewProcesses = 4_096
	fewPIDs      = 32_768
	fewPTYs      = 64
	fewWatches   = 65_536
	fewInstances = 128
)

// Check judges the facts.
func Check(f Facts) []Line {
	lines := []Line{f.files(), f.processes()}
	lines = append(lines, f.system()...)
	if f.Shared != "" {
		lines = append(lines, Line{Check: "processes of programs", Status: Warn, Found: show.Harmless(f.Shared), Advice: "limit programs that you do not trust (troupe run --limit processes=N), or run the server in a unit with Delegate=yes"})
	}
	lines = append(lines, f.contained(), f.held(), f.confined(), f.users(), f.port(), f.runtime(), f.config())
	for i := range lines {
		lines[i].About = Machine
	}
	for _, l := range f.reach() {
		l.About = Server
		lines = append(lines, l)
	}
	return lines
}

// Failed reports whether a line is a failure.
func Failed(lines []Line) bool {
	return slices.ContainsFunc(lines, func(l Line) bool { return l.Status == Fail })
}

func (f Facts) files() Line {
	l := Line{Check: "open files", Status: OK, Found: fmt.Sprintf("%s (RLIMIT_NOFILE; soft %s), for about %s programs", count(f.FilesHard), count(f.FilesSoft), count(max(f.FilesHard-tooFewFiles, 0)/filesEach))}
	switch {
	case f.FilesHard < 0:
		l.Found = "unknown"
	case f.FilesHard < tooFewFiles:
		l.Status = Fail
	case f.FilesHard < fewFiles:
		l.Status = Warn
	}
	if l.Status != OK {
		l.Advice = fmt.Sprintf("a program takes up to %d, a connection 1, and a program in a sandbox takes 12 of a holder: raise the hard limit with LimitNOFILE= of the service, or in /etc/security/limits.conf", filesEach)
	}
	return l
}

func (f Facts) processes() Line {
	l := Line{Check: "processes of this user", Status: OK, Found: count(f.Processes) + " (RLIMIT_NPROC)"}
	switch {
	case f.Processes < 0:
		l.Found = "no limit"
	case f.Root:
		l.Found += ", which does not bind root"
	case f.Processes < fewProcesses:
		l.Status, l.Advice = Warn, "the limit counts threads, too: raise it with LimitNPROC= of the service, or in /etc/security/limits.conf"
	}
	return l
}

// system checks the limits of the whole machine.
func (f Facts) system() (lines []Line) {
	add := func(check string, found int64, few int64, text, advice string) {
		if found < 0 {
			return
		}
		l := Line{Check: check, Status: OK, Found: text}
		if found < few {
			l.Status, l.Advice = Warn, advice
		}
		lines = append(lines, l)
	}
	add("processes of the machine", f.PIDMax, fewPIDs, count(f.PIDMax)+" (kernel.pid_max)", "as root: sysctl -w kernel.pid_max=4194304")
	if f.PTYMax >= 0 {
		add("terminals", f.PTYMax-max(f.PTYUsed, 0), fewPTYs, fmt.Sprintf("%s free of %s (kernel.pty.max)", count(f.PTYMax-max(f.PTYUsed, 0)), count(f.PTYMax)), "as root: sysctl -w kernel.pty.max=4096")
	}
	add("watches of files", f.InotifyWatches, fewWatches, count(f.InotifyWatches)+" (fs.inotify.max_user_watches)", "as root: sysctl -w fs.inotify.max_user_watches=524288")
	add("watchers of files", f.InotifyHandles, fewInstances, count(f.InotifyHandles)+" (fs.inotify.max_user_instances)", "as root: sysctl -w fs.inotify.max_user_instances=1024")
	return lines
}

func (f Facts) contained() Line {
	l := Line{Check: "containment", Status: OK, Found: f.Containment}
	switch {
	case f.NoCgroup == "" && len(f.NoLimits) > 0:
		l.Status, l.Found = Warn, fmt.Sprintf("%s, without the controllers %s: %s", f.Containment, strings.Join(f.NoLimits, ", "), show.Harmless(f.WhyNoLimits))
		l.Advice = "the limits memory, pids and cpus need them: run the server in a unit with Delegate=yes, on a machine with only cgroup v2"
	case f.NoCgroup != "":
		l.Status = Warn
		l.Found = fmt.Sprintf("%s, no cgroup: %s", f.Containment, show.Harmless(f.NoCgroup))
		l.Advice = "without a cgroup, limits of memory and CPU are missing, and the usage in ps and top is that of the program alone: run the server in a unit with Delegate=yes, or on a machine with cgroup v2"
	}
	return l
}

func (f Facts) held() Line {
	if f.NoHolder != "" {
		return Line{Check: "holder", Status: Warn, Found: show.Harmless(f.NoHolder), Advice: "here programs end with their server"}
	}
	return Line{Check: "holder", Status: OK, Found: "programs outlive a server that is killed or upgraded"}
}

func (f Facts) confined() Line {
	l := Line{Check: "sandbox", Status: OK, Found: fmt.Sprintf("available, %s, with Landlock ABI %d", f.SandboxLevel, f.Landlock)}
	switch {
	case f.Sandbox != "":
		l.Status, l.Found = Warn, show.Harmless(f.Sandbox)
		l.Advice = "every start with a sandbox is refused here (troupe run --sandbox, and agents that confine their commands): see docs/SANDBOX.md"
	case len(f.SandboxNotes) > 0:
		l.Status, l.Found = Warn, fmt.Sprintf("available, %s, but %s", f.SandboxLevel, show.Harmless(strings.Join(f.SandboxNotes, "; ")))
		l.Advice = "see docs/SANDBOX.md"
	}
	return l
}

func (f Facts) users() Line {
	if f.Root {
		return Line{Check: "users", Status: OK, Found: "root: programs may run as other users (troupe serve --users-file, troupe run --user)"}
	}
	return Line{Check: "users", Status: OK, Found: "programs run as you; other users need a server that runs as root"}
}

func (f Facts) port() Line {
	l := Line{Check: "port", Status: OK, Found: f.Port.Address + " is free"}
	switch {
	case f.Port.Troupe != "":
		l.Found = fmt.Sprintf("troupe %s runs at %s", show.Harmless(f.Port.Troupe), f.Port.Address)
	case f.Port.Other != "":
		l.Status, l.Found = Warn, fmt.Sprintf("%s: %s", f.Port.Address, show.Harmless(f.Port.Other))
		l.Advice = "only troupe serve without --listen needs this port: choose another with --listen ws://127.0.0.1:PORT"
	}
	return l
}

func (f Facts) runtime() Line {
	l := Line{Check: "runtime directory", Status: OK, Found: show.Harmless(f.RuntimeDir)}
	if f.RuntimeError != "" {
		l.Status, l.Found, l.Advice = Warn, show.Harmless(f.RuntimeError), "your own server needs the directory; servers with a URL do not"
		if f.Local {
			l.Status = Fail
		}
	}
	return l
}

func (f Facts) config() Line {
	l := Line{Check: "config file", Status: OK, Found: "none"}
	switch {
	case f.ConfigError != "":
		l.Status, l.Found, l.Advice = Fail, show.Harmless(f.ConfigError), "mend the file, or move it away"
	case f.Config != "":
		l.Found = show.Harmless(f.Config)
	}
	return l
}

// reach checks the chosen server.
func (f Facts) reach() []Line {
	l := Line{Check: "server", Status: OK, Found: show.Harmless(f.Target)}
	switch {
	case f.Target == "": // the line about the config file tells why
		return nil
	case f.ServerError != "":
		l.Status, l.Found = Fail, fmt.Sprintf("%s: %s", l.Found, show.Harmless(f.ServerError))
		l.Advice = "see whether troupe serve runs there, and whether its address and your credential are right"
		if f.Local {
			l.Advice = "see its log with: troupe server status"
		}
		return []Line{l}
	case f.Server == nil:
		l.Found += " does not run; the next command that needs it starts it"
		return []Line{l}
	}
	s := f.Server
	l.Found += fmt.Sprintf(" answers: troupe %s, containment %s, %s, %s", show.Harmless(s.Server.Version), show.Harmless(s.Containment), show.Count(int(s.Sessions), "session"), show.Count(s.Children, "program"))
	lines := []Line{l}
	if s.Server.Version != f.ClientVersion {
		v := Line{Check: "versions", Status: Warn, Found: fmt.Sprintf("the server is troupe %s, this is %s", show.Harmless(s.Server.Version), f.ClientVersion), Advice: "use the same version on both sides"}
		if f.Local {
			if v.Advice = "end the server and its programs with: troupe server stop"; s.Holder != nil && s.Holder.Available {
				v.Advice = "replace the server, and keep its programs, with: troupe server upgrade"
			}
		}
		lines = append(lines, v)
	}
	if s.Holder != nil {
		lines = append(lines, Line{Check: "end of the server", Status: OK, Found: show.Harmless(fate(s.Holder))})
	}
	// The server may be on another machine, be of another user, or demand a complete sandbox.
	switch box := s.Sandbox; {
	case box == nil:
	case !box.Available && f.Sandbox == "":
		lines = append(lines, Line{Check: "sandbox of the server", Status: Warn, Found: show.Harmless(box.Why), Advice: "the server refuses every start with a sandbox: see docs/SANDBOX.md"})
	case box.Available && box.Level != f.SandboxLevel && len(box.Notes) > 0:
		lines = append(lines, Line{Check: "sandbox of the server", Status: Warn, Found: show.Harmless(box.Level + ", but " + strings.Join(box.Notes, "; ")), Advice: "see docs/SANDBOX.md"})
	}
	for _, note := range s.Notes {
		lines = append(lines, Line{Check: "note of the server", Status: Warn, Found: show.Harmless(note), Advice: "see docs/THREAT_MODEL.md; about the audit log, docs/AUDIT.md"})
	}
	if s.FileCallsHung > 0 {
		lines = append(lines, Line{Check: "filesystems", Status: Warn, Found: fmt.Sprintf("file operations of the server that hang: %d", s.FileCallsHung), Advice: "look for a network filesystem of the server that does not answer"})
	}
	if n := s.Panics + s.ActorsGivenUp; n > 0 {
		lines = append(lines, Line{Check: "faults of the server", Status: Warn, Found: fmt.Sprintf("%d since its start", n), Advice: "see its log"})
	}
	return lines
}

// fate says what the end of a server is for its programs.
func fate(h *protocol.HolderInfo) string {
	switch {
	case !h.Available:
		return "programs end with the server: " + h.Why
	case h.Servers > 1:
		return fmt.Sprintf("programs outlive the server: this is server %d of its holder", h.Servers)
	}
	return "programs outlive the server"
}

// count returns a limit for people.
func count(n int64) string {
	if n < 0 {
		return "no limit"
	}
	return show.Number(n)
}
