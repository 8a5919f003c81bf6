//go:build unix

package doctor

import (
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// fit is a machine without a fault.
func fit() Facts {
	return Facts{
		FilesSoft: 1024, FilesHard: 524_288, Processes: 96_000, PIDMax: 4_194_304, PTYMax: 4096, PTYUsed: 3,
		InotifyWatches: 524_288, InotifyHandles: 1024,
		Containment: "cgroup", Port: Port{Address: "127.0.0.1:7766"}, RuntimeDir: "/run/user/1000/troupe",
		Target: "your own server at unix:///run/x", Local: true, ClientVersion: "v1",
	}
}

func TestCheck(t *testing.T) {
	server := func(change func(*protocol.ServerInfoResult)) *protocol.ServerInfoResult {
		s := &protocol.ServerInfoResult{AboutServer: protocol.AboutServer{Server: protocol.ServerInfo{Version: "v1"}, Containment: "cgroup"}, Sessions: 2, Children: 3}
		change(s)
		return s
	}
	for _, c := range []struct {
		name   string
		change func(*Facts)
		check  string
		want   Status
		found  string // part of Line.Found
		advice string // part of the advice
	}{
		{"files", func(f *Facts) {}, "open files", OK, "524,288 (RLIMIT_NOFILE; soft 1,024)", ""},
		{"programs", func(f *Facts) { f.FilesHard = 20_256 }, "open files", OK, "for about 4,000 programs", ""},
		{"holder", func(f *Facts) {}, "holder", OK, "outlive a server", ""},
		{"no holder", func(f *Facts) { f.NoHolder = "no \x1b[2Jsplice" }, "holder", Warn, `no \x1b[2Jsplice`, "end with their server"},
		{"programs end", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) { s.Holder = &protocol.HolderInfo{Why: "no holder"} })
		}, "end of the server", OK, "end with the server: no holder", ""},
		{"programs go on", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) { s.Holder = &protocol.HolderInfo{Available: true, Servers: 3} })
		}, "end of the server", OK, "outlive the server: this is server 3", ""},
		{"own server with a holder, of another version", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) {
				s.Server.Version, s.Holder = "v0", &protocol.HolderInfo{Available: true, Servers: 1}
			})
		}, "versions", Warn, "v0", "troupe server upgrade"},
		{"few files", func(f *Facts) { f.FilesHard = 4096 }, "open files", Warn, "4,096", "LimitNOFILE="},
		{"hardly any files", func(f *Facts) { f.FilesHard = 64 }, "open files", Fail, "64", "LimitNOFILE="},
		{"files unknown", func(f *Facts) { f.FilesHard = -1 }, "open files", OK, "unknown", ""},
		{"few processes", func(f *Facts) { f.Processes = 1000 }, "processes of this user", Warn, "1,000", "LimitNPROC="},
		{"few processes of root", func(f *Facts) { f.Processes, f.Root = 1000, true }, "processes of this user", OK, "does not bind root", ""},
		{"no limit of processes", func(f *Facts) { f.Processes = -1 }, "processes of this user", OK, "no limit", ""},
		{"few pids", func(f *Facts) { f.PIDMax = 4096 }, "processes of the machine", Warn, "4,096", "sysctl -w kernel.pid_max="},
		{"few terminals", func(f *Facts) { f.PTYUsed = 4090 }, "terminals", Warn, "6 free of 4,096", "sysctl -w kernel.pty.max="},
		{"few watches", func(f *Facts) { f.InotifyWatches = 8192 }, "watches of files", Warn, "8,192", "max_user_watches="},
		{"few watchers", func(f *Facts) { f.InotifyHandles = 64 }, "watchers of files", Warn, "64", "max_user_instances="},
		{"no cgroup", func(f *Facts) { f.Containment, f.NoCgroup = "marker", "not \x1b[2Jdelegated" }, "containment", Warn, `marker, no cgroup: not \x1b[2Jdelegated`, "Delegate=yes"},
		{"no fence", func(f *Facts) { f.Shared = "no \x1b[2Jcgroup" }, "processes of programs", Warn, `no \x1b[2Jcgroup`, "Delegate=yes"},
		{"no controllers", func(f *Facts) { f.NoLimits, f.WhyNoLimits = []string{"cpu", "memory"}, "of others" }, "containment", Warn, "cgroup, without the controllers cpu, memory: of others", "Delegate=yes"},
		{"sandbox", func(f *Facts) { f.SandboxLevel, f.Landlock = "complete", 7 }, "sandbox", OK, "available, complete, with Landlock ABI 7", ""},
		{"no sandbox", func(f *Facts) { f.Sandbox = "namespaces: \x1b[2Jno space left" }, "sandbox", Warn, `namespaces: \x1b[2Jno space left`, "docs/SANDBOX.md"},
		{"sandbox with less", func(f *Facts) {
			f.SandboxLevel, f.SandboxNotes = "oldProc", []string{"\x1b[2Jarguments are visible", "Landlock is missing"}
		}, "sandbox", Warn,
			`available, oldProc, but \x1b[2Jarguments are visible; Landlock is missing`, "docs/SANDBOX.md"},
		{"no sandbox at the server", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) { s.Sandbox = &protocol.SandboxInfo{Why: "namespaces: no"} })
		}, "sandbox of the server", Warn, "namespaces: no", "refuses every start"},
		{"less of a sandbox at the server", func(f *Facts) {
			f.SandboxLevel = "complete"
			f.Server = server(func(s *protocol.ServerInfoResult) {
				s.Sandbox = &protocol.SandboxInfo{Available: true, Level: "oldProc", Notes: []string{"arguments are visible"}}
			})
		}, "sandbox of the server", Warn, "oldProc, but arguments are visible", "docs/SANDBOX.md"},
		{"root", func(f *Facts) { f.Root = true }, "users", OK, "--users-file", ""},
		{"no root", func(f *Facts) {}, "users", OK, "run as you", ""},
		{"port free", func(f *Facts) {}, "port", OK, "is free", ""},
		{"port ours", func(f *Facts) { f.Port.Troupe = "v9" }, "port", OK, "troupe v9", ""},
		{"port of others", func(f *Facts) { f.Port.Other = "another program listens there" }, "port", Warn, "another program", "--listen"},
		{"directory of others", func(f *Facts) { f.RuntimeError = "belongs to user 7" }, "runtime directory", Fail, "belongs to user 7", "your own server"},
		{"directory of others, not needed", func(f *Facts) { f.RuntimeError, f.Local = "belongs to user 7", false }, "runtime directory", Warn, "belongs to user 7", "a URL do not"},
		{"config", func(f *Facts) { f.Config = "/c" }, "config file", OK, "/c", ""},
		{"wrong config", func(f *Facts) { f.Config, f.ConfigError = "/c", "/c:3: unknown key" }, "config file", Fail, "/c:3: unknown key", "mend"},
		{"own server is not there", func(f *Facts) {}, "server", OK, "does not run; the next command", ""},
		{"own server fails", func(f *Facts) { f.ServerError = "no answer" }, "server", Fail, "no answer", "troupe server status"},
		{"server fails", func(f *Facts) { f.ServerError, f.Local = "refused", false }, "server", Fail, "refused", "credential"},
		{"server", func(f *Facts) { f.Server = server(func(*protocol.ServerInfoResult) {}) }, "server", OK, "answers: troupe v1, containment cgroup, 2 sessions, 3 programs", ""},
		{"own server of another version", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) { s.Server.Version = "v0" })
		}, "versions", Warn, "the server is troupe v0, this is v1", "troupe server stop"},
		{"server of another version", func(f *Facts) {
			f.Local, f.Server = false, server(func(s *protocol.ServerInfoResult) { s.Server.Version = "v0" })
		}, "versions", Warn, "v0", "same version"},
		{"notes", func(f *Facts) {
			f.Server = server(func(s *protocol.ServerInfoResult) { s.Notes = []string{"no fence"} })
		}, "note of the server", Warn, "no fence", ""},
		{"hung files", func(f *Facts) { f.Server = server(func(s *protocol.ServerInfoResult) { s.FileCallsHung = 2 }) }, "filesystems", Warn, "hang: 2", "network filesystem"},
		{"faults", func(f *Facts) { f.Server = server(func(s *protocol.ServerInfoResult) { s.Panics = 2 }) }, "faults of the server", Warn, "2 since", "log"},
	} {
		f := fit()
		c.change(&f)
		lines := Check(f)
		i := slices.IndexFunc(lines, func(l Line) bool { return l.Check == c.check })
		if i < 0 {
			t.Errorf("%s: no line %q", c.name, c.check)
			continue
		}
		if l := lines[i]; l.Status != c.want || !strings.Contains(l.Found, c.found) || !strings.Contains(l.Advice, c.advice) || (l.Advice == "") != (l.Status == OK) {
			t.Errorf("%s: %+v, want %s, %q, %q", c.name, l, c.want, c.found, c.advice)
		}
		if Failed(lines) != (c.want == Fail) {
			t.Errorf("%s: failed %v", c.name, Failed(lines))
		}
	}
}

// An unknown fact has no line.
func TestUnknownLimits(t *testing.T) {
	f := fit()
	f.PIDMax, f.PTYMax, f.InotifyWatches, f.InotifyHandles = -1, -1, -1, -1
	for _, l := range Check(f) {
		if strings.Contains(l.Found, "kernel.") || strings.Contains(l.Found, "fs.inotify") {
			t.Errorf("%+v", l)
		}
	}
}

// Look collects the facts of this machine, and reports a missing server.
func TestLook(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	f := Look(t.Context(), &target.Flags{URL: "unix:///nowhere/x.sock", Version: "v1"})
	if f.FilesHard == 0 || f.PIDMax == 0 || f.Containment == "" || f.Target != "unix:///nowhere/x.sock" || f.Local {
		t.Errorf("%+v", f)
	}
	if !Failed(Check(f)) || !strings.Contains(f.ServerError, "does troupe serve run there?") {
		t.Errorf("the server: %q", f.ServerError)
	}
}
