//go:build unix

package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// patience is how long a test waits for a fact.
const patience = time.Minute

// A host is a troupe in this program, whose connections a test can record and cut.
type host struct {
	troupe *actors.Troupe

	mu    sync.Mutex
	sent  []string // the methods of all messages of clients, in order
	conns []transport.Conn
	// onMessage gets the number and the method of each message, from 1. If onMessage returns true, the
	// connection is cut before the server gets the message. nil: no message is cut.
	onMessage func(n int, method string) bool
	// loseAnswer is called for each message of the server. If loseAnswer returns true, the connection is cut, and
	// the message is lost. nil: no message is lost.
	loseAnswer func() bool
}

func newHost(t *testing.T, config actors.Config) *host {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	config.Log = quiet
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	troupe, err := actors.Start(system, config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := troupe.Kill(); err != nil {
			t.Error(err)
		}
	})
	return &host{troupe: troupe}
}

// client returns a client with a session on the host.
func (h *host) client(t *testing.T, o *client.Options) *client.Client {
	t.Helper()
	ctx := within(t)
	c, err := client.InProcess(ctx, h.accept, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := c.CloseSession(ctx); err != nil && !errors.Is(err, client.ErrClosed) {
			t.Error(err)
		}
	})
	return c
}

func (h *host) accept(conn transport.Conn) {
	h.mu.Lock()
	h.conns = append(h.conns, conn)
	h.mu.Unlock()
	h.troupe.Accept(&tapped{conn, h}, conn.About())
}

// within returns a context that ends after patience, or with the test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// begin starts a program.
func begin(t *testing.T, cmd *client.Cmd) {
	t.Helper()
	if err := cmd.Start(within(t)); err != nil {
		t.Fatal(err)
	}
}

// methods returns the methods of all messages so far.
func (h *host) methods() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.sent)
}

// count returns how many messages had the method.
func (h *host) count(method string) (n int) {
	for _, m := range h.methods() {
		if m == method {
			n++
		}
	}
	return n
}

// cut cuts all connections.
func (h *host) cut() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, conn := range h.conns {
		conn.Close(1006, "cut by the test")
	}
}

// A tapped connection records what the server reads.
type tapped struct {
	transport.Conn
	h *host
}

func (c *tapped) ReadMessage() ([]byte, error) {
	frame, err := c.Conn.ReadMessage()
	if err != nil {
		return nil, err
	}
	m, err := protocol.Msgpack.Decode(frame)
	if err != nil {
		return nil, err
	}
	c.h.mu.Lock()
	c.h.sent = append(c.h.sent, m.Method)
	n, cut := len(c.h.sent), c.h.onMessage
	c.h.mu.Unlock()
	if cut != nil && cut(n, m.Method) {
		c.Conn.Close(1006, "cut by the test")
		return nil, io.ErrUnexpectedEOF
	}
	return frame, nil
}

func (c *tapped) WriteMessage(msg []byte, binary bool) error {
	c.h.mu.Lock()
	lose := c.h.loseAnswer
	c.h.mu.Unlock()
	if lose != nil && lose() {
		c.Conn.Close(1006, "cut by the test")
		return io.ErrClosedPipe
	}
	return c.Conn.WriteMessage(msg, binary)
}

// viaCall are the methods without a typed method of the client: Client.Call reaches them.
var viaCall = map[string]string{
	protocol.MethodFsWatch:                 "the app-server wire alone has it",
	protocol.MethodFsUnwatch:               "the app-server wire alone has it",
	protocol.MethodFsGetMetadata:           "fs/stat tells more",
	protocol.MethodFsReadDirectory:         "fs/list tells more",
	protocol.MethodProcessSpawn:            "a sister API",
	protocol.MethodProcessWriteStdin:       "a sister API",
	protocol.MethodProcessResizePty:        "a sister API",
	protocol.MethodProcessKill:             "a sister API",
	protocol.MethodCommandExec:             "a sister API",
	protocol.MethodCommandExecWrite:        "a sister API",
	protocol.MethodCommandExecResize:       "a sister API",
	protocol.MethodCommandExecTerminate:    "a sister API",
	protocol.MethodEnvironmentConfigRead:   "about configuration files of the peer",
	protocol.MethodCapabilityRootsDiscover: "about plugins of the peer",
	protocol.MethodCapabilitiesDiscover:    "about plugins of the peer",
}

// TestClientHasAllMethods: for each method of the wire, a method of the client sends it.
func TestClientHasAllMethods(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{})
	c := h.client(t, nil)
	ctx := within(t)
	cat := c.Command("cat")
	cat.ID, cat.Stdin = "cat", strings.NewReader("x")
	if err := cat.Run(ctx); err != nil {
		t.Fatal(err)
	}
	everything(ctx, c, t.TempDir())
	if _, err := c.ServerEvents(ctx, protocol.ServerEventsParams{}); err != nil {
		t.Error(err)
	}
	w, err := c.Watch(ctx, 0)
	if err != nil {
		t.Fatal(err)
	}
	if state, err := w.Next(ctx); err != nil || len(state) != 1 || state[0].SessionID != c.SessionID() || len(state[0].List) == 0 {
		t.Errorf("%+v, %v", state, err)
	}
	w.Close()
	if _, err := c.Nodes(ctx); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("the nodes of a server that is alone: %v", err)
	}
	if err := c.DrainNode(ctx, protocol.ClusterDrainParams{Node: "a"}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("drain a node of a server that is alone: %v", err)
	}
	eventually(t, "the acknowledgement of the output", func() bool { return slices.Contains(h.methods(), protocol.MethodSessionAck) })
	if err := c.CloseSession(ctx); err != nil {
		t.Error(err)
	}
	sent := h.methods()
	for method := range peer.Methods.Params() {
		switch has, reason := slices.Contains(sent, method), viaCall[method]; {
		case !has && reason == "":
			t.Errorf("no method of the client sends %s; add one", method)
		case has && reason != "":
			t.Errorf("viaCall has %s, and a method of the client sends it", method)
		}
	}
	for method := range viaCall {
		if _, ok := peer.Methods.Params()[method]; !ok {
			t.Errorf("viaCall has %s, which is not a method of the wire", method)
		}
	}
}

// everything calls the methods of a client, whether they succeed or not.
func everything(ctx context.Context, c *client.Client, dir string) {
	c.SessionInfo(ctx)
	c.Sessions(ctx, "")
	c.UpdateSession(ctx, client.SessionUpdate{})
	c.ServerInfo(ctx)
	c.Environment(ctx)
	c.Status(ctx)
	c.Processes(ctx)
	c.Share(ctx, nil)
	c.Shares(ctx)
	c.Unshare(ctx, "none")
	c.StartGroup(ctx, &client.Group{ID: "g"}, c.Command("true"))
	c.StopGroup(ctx, "g")
	c.Groups(ctx)

	p := c.Process("cat")
	p.Info(ctx)
	p.Screen(ctx, nil)
	p.Signal(ctx, protocol.SignalTerminate)
	p.Terminate(ctx, time.Second)
	p.Resize(ctx, protocol.Size{Rows: 1, Cols: 1})
	p.Restart(ctx)
	p.SetRestart(ctx, protocol.Restart{Policy: "temporary"})
	p.Wait(ctx)
	p.Write(ctx, []byte("x"))
	p.CloseStdin(ctx)
	p.Read(ctx, nil)
	c.Attach("cat", 0).Start(ctx)

	(&http.Client{Transport: c.Transport()}).Get("http://127.0.0.1:1/")

	f := c.FS("/no/such/directory").WithContext(ctx)
	f.Stat("a")
	f.ReadDir("a")
	f.RealPath("a")
	f.Tree("a", protocol.FsWalkOptions{})
	f.ReadFile("a")
	f.Mkdir("a")
	f.Remove("a")
	f.Rename("a", "b")
	f.Symlink("b", "a")
	f.Chmod("a", 0o644)
	f.Copy("a", "b")
	f.Await(nil, []string{"a"})
	here := c.FS(dir).WithContext(ctx)
	here.WriteFile("a", nil, nil)
	here.WriteFile("private", []byte("x"), &client.WriteOptions{Mode: 0o600})
	if file, err := here.Open("private"); err == nil {
		io.Copy(io.Discard, file)
		file.Close()
	}
}

func TestInfo(t *testing.T) {
	h := newHost(t, actors.Config{})
	c := h.client(t, nil)
	ctx := within(t)
	session, err := c.SessionInfo(ctx)
	if err != nil || session.SessionID != c.SessionID() || !session.Attached {
		t.Errorf("session: %+v, %v", session, err)
	}
	server, err := c.ServerInfo(ctx)
	if err != nil || server.Server != c.Server() || server.Sessions != 1 || server.Goroutines == 0 {
		t.Errorf("server: %+v, %v", server, err)
	}
	env, err := c.Environment(ctx)
	if err != nil || !strings.HasPrefix(env.Cwd, "file:///") || env.Shell.Path == "" {
		t.Errorf("environment: %+v, %v", env, err)
	}
	if status, err := c.Status(ctx); status != "ready" || err != nil {
		t.Errorf("status: %q, %v", status, err)
	}
	if c.Limits().MaxMessageBytes <= 0 {
		t.Errorf("limits: %+v", c.Limits())
	}
}

// TestProcessHandle: a handle does with a process what its Cmd could do, without attaching.
func TestProcessHandle(t *testing.T) {
	t.Parallel()
	h := newHost(t, actors.Config{})
	owner := h.client(t, nil)
	ctx := within(t)
	cmd := owner.Command("sh", "-c", "while read line; do echo got $line; done; exit 3")
	cmd.ID, cmd.Restart = "p", &protocol.Restart{Policy: "permanent"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	begin(t, cmd)
	p := owner.Process("p")
	if p.ID() != "p" {
		t.Errorf("id %q", p.ID())
	}
	info, err := p.Info(ctx)
	if err != nil || info.State != "running" || info.PID == 0 || info.Run != 1 {
		t.Fatalf("info: %+v, %v", info, err)
	}

	// A write larger than a message chunk arrives whole, and in order.
	long := strings.Repeat("x", 100_000)
	if err := p.Write(ctx, []byte(long+"\nsecond\n")); err != nil {
		t.Fatal(err)
	}
	want := "got " + long + "\ngot second\n"
	var got strings.Builder
	for after := uint64(0); got.Len() < len(want); {
		r, err := p.Read(ctx, &client.ReadOptions{After: after, MaxBytes: 1000, Wait: time.Second})
		if err != nil || r.Closed {
			t.Fatalf("read: %+v, %v", r, err)
		}
		for _, chunk := range r.Chunks {
			got.Write(chunk.Chunk)
		}
		after = r.NextSeq - 1
	}
	if got.String() != want {
		t.Errorf("read %d bytes, want %d, and they differ", got.Len(), len(want))
	}

	if err := p.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second run", func() bool {
		info, err := p.Info(ctx)
		return err == nil && info.Run == 2 && info.State == "running"
	})
	if err := p.SetRestart(ctx, protocol.Restart{Policy: "temporary"}); err != nil {
		t.Fatal(err)
	}
	if err := p.CloseStdin(ctx); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(ctx); err != nil || status.ExitCode != 3 || status.Run != 2 {
		t.Errorf("wait: %+v, %v", status, err)
	}
	if err := p.Write(ctx, []byte("late")); !errors.Is(err, client.ErrStdinClosed) {
		t.Errorf("write after the end: %v, want ErrStdinClosed", err)
	}
	if running, err := p.Kill(ctx); running || err != nil {
		t.Errorf("kill after the end: %v, %v", running, err)
	}

	sleep := owner.Command("sleep", "1000")
	begin(t, sleep)
	q := owner.Process(sleep.ID)
	if err := q.Signal(ctx, protocol.SignalInterrupt); err != nil {
		t.Fatal(err)
	}
	if status, err := q.Wait(ctx); err != nil || status.Signal != "SIGINT" {
		t.Errorf("after SIGINT: %+v, %v", status, err)
	}
	tty := owner.Command("sleep", "1000")
	tty.TTY = true
	begin(t, tty)
	r := owner.Process(tty.ID)
	if err := r.Resize(ctx, protocol.Size{Rows: 7, Cols: 9}); err != nil {
		t.Errorf("resize: %v", err)
	}
	if running, err := r.Kill(ctx); !running || err != nil {
		t.Errorf("kill: %v, %v", running, err)
	}

	for name, err := range map[string]error{
		"info":   second(owner.Process("none").Info(ctx)),
		"wait":   second(owner.Process("none").Wait(ctx)),
		"read":   second(owner.Process("none").Read(ctx, nil)),
		"write":  owner.Process("none").Write(ctx, nil),
		"resize": owner.Process("none").Resize(ctx, protocol.Size{Rows: 1, Cols: 1}),
	} {
		if !errors.Is(err, client.ErrProcessGone) {
			t.Errorf("%s of no process: %v, want ErrProcessGone", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// eventually waits for a fact.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestCall: Call takes types of the wire and other types, and passes on the server's refusal.
func TestCall(t *testing.T) {
	h := newHost(t, actors.Config{})
	c := h.client(t, nil)
	ctx := within(t)
	path := t.TempDir() + "/a"
	uri := protocol.FileURI(path)

	if err := c.Call(ctx, protocol.MethodFsWriteFile, protocol.FsWriteFileParams{Path: uri, Data: []byte("a\x00\xff")}, nil); err != nil {
		t.Fatal(err)
	}
	for _, params := range []any{protocol.FsReadFileParams{Path: uri}, &protocol.FsReadFileParams{Path: uri},
		map[string]any{"path": uri}, json.RawMessage(`{"path":"` + uri + `"}`)} {
		var ofWire protocol.FsReadFileResult
		if err := c.Call(ctx, protocol.MethodFsReadFile, params, &ofWire); err != nil || string(ofWire.Data) != "a\x00\xff" {
			t.Errorf("with %T: %q, %v", params, ofWire.Data, err)
		}
		var own map[string]string
		if err := c.Call(ctx, protocol.MethodFsReadFile, params, &own); err != nil || own["dataBase64"] != "YQD/" {
			t.Errorf("with %T: %q, %v", params, own, err)
		}
	}
	var exec protocol.CommandExecResult
	if err := c.Call(ctx, protocol.MethodEnvironmentStatus, nil, nil); err != nil {
		t.Errorf("without params: %v", err)
	}
	var refused *protocol.Error
	err := c.Call(ctx, "no/suchMethod", nil, &exec)
	if !errors.As(err, &refused) || refused.Code != protocol.CodeMethodNotFound {
		t.Errorf("no such method: %v", err)
	}
	if err := c.Call(ctx, protocol.MethodEnvironmentStatus, func() {}, nil); err == nil {
		t.Error("a function as params is not an error")
	}
}
