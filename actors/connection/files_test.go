package connection

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/remote"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An id may be empty, and its calls have an order as well.
func TestHandleWithoutName(t *testing.T) {
	f := newFileCalls(nil, nil)
	defer f.end(turns.New(9))
	for method, prepare := range map[string]func(*fileCall) error{
		"open":      func(call *fileCall) error { return openFile(call, protocol.FsOpenParams{Path: "file:///a"}) },
		"readBlock": func(call *fileCall) error { return readBlock(call, protocol.FsReadBlockParams{Len: 1}) },
		"writeBlock": func(call *fileCall) error {
			return writeBlock(call, protocol.FsWriteBlockParams{Chunk: []byte("x")})
		},
		"close": func(call *fileCall) error { return closeFile(call, protocol.FsCloseParams{}) },
	} {
		call := f.call(inbound{})
		if err := prepare(call); err != nil || call.turn.Key == "" {
			t.Errorf("%s: about %q, %v", method, call.turn.Key, err)
		}
	}
}

// A sandbox that the server does not understand is refused, whatever else is wrong with a request. The sandbox of a request
// about a handle says nothing.
func TestWrongSandboxIsRefusedFirst(t *testing.T) {
	f := newFileCalls(nil, nil)
	defer f.end(turns.New(9))
	c := &connection{files: f, writer: newWriter(nil, nil, new(meters.Meters), nil)}
	c.writer.begin = func() {}
	asks := protocol.Confinement{Sandbox: []byte("{}")}
	_, err := asks.Asked()
	wrong := err.(*protocol.Error)
	ignored := "file handle ID must not exceed 32 bytes"
	long := strings.Repeat("h", 1025)
	for _, test := range []struct {
		method string
		params any
		want   string
	}{
		{protocol.MethodFsReadFile, protocol.FsReadFileParams{Confinement: asks, Path: "no URI"}, wrong.Message},
		{protocol.MethodFsOpen, protocol.FsOpenParams{Confinement: asks, HandleID: long}, wrong.Message},
		{protocol.MethodFsCopy, protocol.FsCopyParams{Confinement: asks}, wrong.Message},
		{protocol.MethodFsReadBlock, protocol.FsReadBlockParams{Confinement: asks, HandleID: long}, ignored},
		{protocol.MethodFsWriteBlock, protocol.FsWriteBlockParams{Confinement: asks, HandleID: long}, ignored},
		{protocol.MethodFsClose, protocol.FsCloseParams{Confinement: asks, HandleID: long}, ignored},
	} {
		All.methods[test.method].handle(Request{c, nil, inbound{params: test.params}})
		if answer, ok := c.writer.next(); !ok || answer.err == nil || answer.err.Message != test.want {
			t.Errorf("%s: %v, want %s", test.method, answer.err, test.want)
		}
	}
}

// A call is made by a jail if its client asks for a sandbox that restricts anything, also if the sandbox permits what the call does.
func TestWhichCallsAreConfined(t *testing.T) {
	readOnly, workspace := protocol.ReadOnlySandbox("/w"), protocol.WorkspaceSandbox("/w")
	hides := protocol.WorkspaceSandbox("/w")
	hides.Entries = append(hides.Entries, protocol.SandboxEntry{Kind: protocol.SandboxPath, Path: "/w/x", Access: protocol.SandboxDeny})
	some := &protocol.Sandbox{Restricted: true, Entries: []protocol.SandboxEntry{{Kind: protocol.SandboxMinimal, Access: protocol.SandboxRead}}}
	for name, test := range map[string]struct {
		sandbox  *protocol.Sandbox
		confined bool
	}{
		"none":         {nil, false},
		"disabled":     {&protocol.Sandbox{Disabled: true}, false},
		"unrestricted": {&protocol.Sandbox{}, false},
		"read-only":    {readOnly, true},
		"workspace":    {workspace, true},
		"hides":        {hides, true},
		"some":         {some, true},
		"nothing":      {&protocol.Sandbox{Restricted: true}, true},
	} {
		call := &fileCall{files: new(fileCalls), sandbox: test.sandbox}
		for _, writes := range []bool{false, true} {
			if by, err := call.by(t.Context(), writes); test.confined != (err != nil) {
				t.Errorf("%s, writes %v: by %p, %v without jails", name, writes, by, err)
			}
		}
	}
	relative := protocol.WorkspaceSandbox("/w")
	relative.Cwd = ""
	err := new(fileCall).confine(protocol.Confinement{Sandbox: relative.JSON()})
	if err == nil || err.Error() != errNoCwd.Error() {
		t.Errorf("without a cwd: %v", err)
	}
}

// auditLines is a sink for an audit log.
type auditLines struct{ text strings.Builder }

func (l *auditLines) Write(line []byte) error { l.text.Write(line); return nil }
func (*auditLines) Close() error              { return nil }

// userJail makes calls as a user, whose process holds the files.
type userJail struct{ view *remote.View }

func (j userJail) View() *remote.View   { return j.view }
func (userJail) Intact() bool           { return true }
func (userJail) Ended() <-chan struct{} { return nil }
func (userJail) Close()                 {}

func (userJail) Do(ctx context.Context, c files.Call) (files.Result, error) {
	r, err := files.Do(ctx, c)
	if r.File != nil {
		r.File = heldByUser{r.File}
	}
	return r, err
}

type heldByUser struct{ files.Opened }

func (heldByUser) Here() *os.File { return nil }

// The record of a call that changes a file has the user of the process that made the call. It has no user if the server made
// the call, or if nobody did.
func TestRecordHasTheUserOfFiles(t *testing.T) {
	dir := t.TempDir()
	lines := new(auditLines)
	log := audit.New(lines, audit.Options{Log: slog.New(slog.DiscardHandler)})
	f := newFileCalls(nil, nil)
	defer f.end(turns.New(9))
	f.jails = &jails{owner: remote.NewPool(func(_ context.Context, _ string, v *remote.View) (remote.Jail, error) {
		return userJail{view: v}, nil
	}).Owner("c")}
	c := &connection{env: &env.Env{Config: config.Config{Audit: log}}, files: f}
	const nobody = `"user":{"name":"nobody","uid":65534,"gid":65534}`
	var want []string
	do := func(method, user string, prepare func(*fileCall) error, has string) {
		t.Helper()
		call := &fileCall{in: inbound{method: method, entry: All.methods[method]}, files: f, user: user, leave: func() {}, enter: func(string) error { return nil }}
		if err := prepare(call); err != nil {
			t.Fatal(err)
		}
		recorded := c.recordFile(call)
		_, err := call.do(t.Context())
		recorded(err)
		want = append(want, has)
	}
	write := func(name string) func(*fileCall) error {
		return func(call *fileCall) error {
			return writeFile(call, protocol.FsWriteFileParams{Path: "file://" + dir + "/" + name})
		}
	}
	open := func(call *fileCall) error {
		return openFile(call, protocol.FsOpenParams{HandleID: "h", Path: "file://" + dir + "/c", Mode: protocol.FsReplace})
	}
	shut := func(call *fileCall) error { return closeFile(call, protocol.FsCloseParams{HandleID: "h"}) }
	do(protocol.MethodFsWriteFile, "nobody", write("a"), `/a",`+nobody+"}")
	do(protocol.MethodFsWriteFile, "nobody", write("none/a"), `/none/a",`+nobody+`,"error":"`)
	do(protocol.MethodFsWriteFile, "", write("b"), `/b"}`)
	do(protocol.MethodFsWriteFile, "no such user", write("b"), `/b","error":"`)
	do(protocol.MethodFsOpen, "nobody", open, `/c","handle":"h",`+nobody+"}")
	do(protocol.MethodFsClose, "root", shut, `/c","handle":"h",`+nobody+"}") // the file is closed by the process that holds it
	do(protocol.MethodFsOpen, "", open, `/c","handle":"h"}`)
	do(protocol.MethodFsClose, "", shut, `/c","handle":"h"}`)
	log.Close()
	all := strings.Split(strings.TrimSpace(lines.text.String()), "\n")
	if len(all) != len(want) {
		t.Fatalf("%d lines, want %d: %q", len(all), len(want), all)
	}
	for i := range want {
		if !strings.Contains(all[i], want[i]) {
			t.Errorf("%s\nwant %s", all[i], want[i])
		}
	}
}

// A view that took long to find is used again, for a while in proportion, and a connection keeps a few views.
func TestViewIsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looked, took := 0, minLookUp
		j := &jails{resolve: func(context.Context, *protocol.Sandbox, *remote.User) (*remote.View, error) {
			looked++
			time.Sleep(took)
			return new(remote.View), nil
		}}
		ask := func(root string, want int) {
			t.Helper()
			if _, err := j.view(t.Context(), protocol.WorkspaceSandbox(root), nil); err != nil || looked != want {
				t.Errorf("%d look-ups, want %d; %v", looked, want, err)
			}
		}
		ask("/a", 1)
		time.Sleep(viewShare*took - 1)
		ask("/a", 1)
		ask("/b", 2)
		ask("/a", 3)
		for i := range maxViews {
			ask(fmt.Sprint("/", i), 4+i)
		}
		if len(j.views) > maxViews {
			t.Errorf("%d views are kept", len(j.views))
		}
		took--
		ask("/quick", 4+maxViews)
		ask("/quick", 5+maxViews)
		j.resolve = func(context.Context, *protocol.Sandbox, *remote.User) (*remote.View, error) {
			time.Sleep(time.Hour)
			return nil, nil
		}
		ask("/slow", 5+maxViews)
		time.Sleep(maxViewTime)
		if _, ok := j.known(protocol.WorkspaceSandbox("/slow"), nil); ok {
			t.Error("the view is kept for too long")
		}
	})
}
