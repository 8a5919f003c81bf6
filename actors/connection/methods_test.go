package connection

import (
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/hunt"
)

// Every method of package protocol has an entry, and every entry is such a method. (A test of package
// hunt compares the methods of packages protocol and hunt.)
func TestMethodsAreInTheTable(t *testing.T) {
	named := slices.Sorted(maps.Keys(All.methods))
	for _, name := range hunt.Methods() {
		if !slices.Contains(named, name) {
			t.Errorf("%s has no row in a table of methods", name)
		}
	}
	entries := len(All.Rows())
	if len(named) != len(hunt.Methods()) || entries != len(named) {
		t.Errorf("%d entries, of %d methods: %v; package hunt has %v", entries, len(named), named, hunt.Methods())
	}
}

// Every entry has a handler and a family. An entry that changes something says how a repeat is recognized.
func TestMethodsAreComplete(t *testing.T) {
	for name, m := range All.methods {
		forms := 0
		for _, h := range m.forms() {
			complete := h.handle != nil && h.decode != nil && len(h.params) > 0 && (len(h.results) > 0) != m.Notification
			if empty := h.handle == nil && h.decode == nil && len(h.params)+len(h.results) == 0; !complete && !empty {
				t.Errorf("%s has half a handler", name)
			} else if complete {
				forms++
			}
		}
		if forms == 0 {
			t.Errorf("%s has no handler", name)
			continue
		}
		if m.section.Family == "" {
			t.Errorf("%s has no family", name)
		}
		if passed := slices.Contains([]string{"session", "process", "group"}, m.section.About); !passed && m.Record == AsRequest && !m.Observer.reads {
			t.Errorf("%s is about a %s, so nobody passes it on, and nobody records it: give its entry another record", name, m.section.About)
		}
		if _, ok := paramsOf(m)[0].(protocol.AboutProcess); ok != (m.section.About == "process") {
			t.Errorf("%s is about a %s, and its params name a process: %v", name, m.section.About, ok)
		}
		if repeatOf(m) == "" {
			t.Errorf("%s changes something, and the server does not recognize a repeat: embed protocol.Repeatable in its params, or give its entry the permission reads", name)
		}
	}
}

// A method whose entry says nothing else is denied to observers, and to others before the end of
// the handshake.
func TestMethodsChangeByDefault(t *testing.T) {
	handled := false
	more := Section{Family: "exec", About: "process", Methods: []Method{
		{Name: "process/foo", Handler: handles(Params, func(*connection, actor.Context, inbound, protocol.ProcessWaitParams) { handled = true })},
	}}
	foo := NewTable(nil, more).methods["process/foo"]
	for _, test := range []struct {
		stage stage
		role  protocol.Role
		want  int // code of the error; 0: handled
	}{
		{ready, protocol.RoleOwner, 0},
		{ready, protocol.RoleController, 0},
		{ready, protocol.RoleObserver, protocol.CodeObserver},
		{ready, "", protocol.CodeObserver},
		{attached, protocol.RoleOwner, protocol.CodeInvalidRequest},
		{opened, "", protocol.CodeInvalidRequest},
	} {
		c := &connection{env: new(env.Env), stage: test.stage, attachment: attachment{role: test.role}, writer: newWriter(nil, nil, new(meters.Meters), nil)}
		c.writer.begin = func() {}
		handled = false
		c.request(nil, inbound{kind: protocol.Request, method: foo.Name, entry: foo, params: protocol.ProcessWaitParams{}})
		answer, answered := c.writer.next()
		if handled != (test.want == 0) || answered == handled || answered && answer.err.Code != test.want {
			t.Errorf("at stage %d, role %q: handled %v, answer %v, want %d", test.stage, test.role, handled, answer.err, test.want)
		}
	}
}

// A method whose entry says that it only reads, and whose function changes a file, is done for nobody: observers may send it, and a repeat is
// done again.
func TestMethodsThatReadChangeNoFile(t *testing.T) {
	c := &connection{env: new(env.Env), files: newFileCalls(nil, nil), writer: newWriter(nil, nil, new(meters.Meters), nil)}
	c.writer.begin = func() {}
	c.fileRequest(nil, inbound{method: "fs/foo", entry: &Method{Observer: Reads}}, func(call *fileCall) error {
		return call.makes("file:///x", files.Call{Op: files.OpRemove})
	})
	if answer, _ := c.writer.next(); answer.err == nil || answer.err.Code != protocol.CodeInternal || c.files.pending() != 0 {
		t.Errorf("the answer is %+v, and %d calls wait", answer, c.files.pending())
	}
}

// Each method says what a guest gets. A new method fails this test until somebody has decided, and added
// the method here as well.
func TestGuestsOfMethods(t *testing.T) {
	decided := map[Guests][]string{
		anyGuest: {"initialize", "initialized", "environment/status", "session/info", "session/list", "process/list", "group/list",
			"process/read", "process/subscribe", "process/wait", "process/info", "process/screen", "server/events", "server/watch"},
		typists: {"process/write", "process/resize"},
		noGuest: {"environment/info", "server/info", "cluster/nodes", "cluster/drain", "session/close", "session/update", "session/ack", "session/share", "session/shares", "session/unshare",
			"process/start", "process/signal", "process/terminate", "process/closeStdin", "process/restart", "process/setRestart",
			"group/start", "group/stop",
			"fs/readFile", "fs/open", "fs/readBlock", "fs/writeBlock", "fs/close", "fs/writeFile", "fs/createDirectory", "fs/getMetadata",
			"fs/canonicalize", "fs/readDirectory", "fs/walk", "fs/remove", "fs/copy", "fs/stat", "fs/list",
			"fs/rename", "fs/symlink", "fs/setMetadata", "fs/watchMissing", "fs/watch", "fs/unwatch",
			"environmentConfig/read", "capabilityRoots/discoverV1", "capabilities/discoverV2", "http/request",
			"process/spawn", "process/writeStdin", "process/resizePty", "process/kill",
			"command/exec", "command/exec/write", "command/exec/resize", "command/exec/terminate"},
	}
	for name, m := range All.methods {
		if !slices.Contains(decided[m.Guests], name) {
			t.Errorf("%s is for guests: %v; nobody has decided that", name, m.Guests)
		}
		for _, p := range append(paramsOf(m), nil) {
			if p == nil && m.Guests != noGuest {
				continue
			}
			for role, want := range map[protocol.Role]bool{
				protocol.RoleObserver: m.Guests == anyGuest,
				protocol.RoleTypist:   m.Guests == anyGuest || m.Guests == typists,
				protocol.RoleOwner:    m.Guests == anyGuest, // no guest has this role, and if it had, it would be no more
				"":                    m.Guests == anyGuest,

				protocol.RoleController: m.Guests == anyGuest, // as the owner
			} {
				if m.Early {
					continue
				}
				if got := m.allows(role, true, p); got != want {
					t.Errorf("%s by a guest as %q: %v, want %v", name, role, got, want)
				}
			}
			if !m.allows(protocol.RoleOwner, false, p) || !m.allows(protocol.RoleController, false, p) || m.Guests == typists && m.allows(protocol.RoleTypist, false, p) {
				t.Errorf("%s: by a client that is not a guest", name)
			}
		}
	}
}

// An observer may open files for reading only.
func TestObserverOpensToRead(t *testing.T) {
	open := All.methods[protocol.MethodFsOpen].Observer
	for mode, want := range map[protocol.FsMode]bool{"": true, protocol.FsRead: true, protocol.FsReplace: false} {
		if got := open.allows(protocol.FsOpenParams{Mode: mode}); got != want {
			t.Errorf("fs/open with mode %q: %v, want %v", mode, got, want)
		}
	}
}

var update = flag.Bool("update", false, "write the list of methods in docs/PROTOCOL.md")

// The list of methods in PROTOCOL.md is the table.
func TestMethodsOfTheDocumentation(t *testing.T) {
	const path, begin, end = "../../docs/PROTOCOL.md", "<!-- methods: begin -->\n", "<!-- methods: end -->\n"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	list, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no list of methods between %q and %q", path, begin, end)
	}
	want := listOfMethods()
	if list == want {
		return
	}
	if !*update {
		t.Fatalf("the list of methods in %s is not that of the table: run this test with -update, or paste\n%s", path, want)
	}
	if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

func listOfMethods() string {
	var text strings.Builder
	text.WriteString("| method | params → result | about | app-server | observer | guest | repeat | audit |\n|---|---|---|---|---|---|---|---|\n")
	for _, r := range All.Rows() {
		shape := typeNames(r.Params)
		if r.Results != nil {
			shape += " → " + typeNames(r.Results)
		}
		text.WriteString("| " + strings.Join([]string{"`" + r.Name + "`", shape, r.About, r.App, r.Observer, r.Guest, r.Repeat, r.Audit}, " | ") + " |\n")
	}
	return text.String()
}

// typeNames are the types of the wire that values have. A type of another package means that the server ignores the params.
func typeNames(values []any) string {
	var names []string
	for _, v := range values {
		if t := reflect.TypeOf(v); t.PkgPath() == reflect.TypeFor[protocol.Empty]().PkgPath() && !slices.Contains(names, t.Name()) {
			names = append(names, t.Name())
		}
	}
	if names == nil {
		return "Empty"
	}
	return strings.Join(names, ", ")
}
