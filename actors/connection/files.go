package connection

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/internal/turns"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxReadFile bounds the answer to fs/readFile, in bytes.
	maxReadFile = 32 << 20
	// maxFileCalls is how many calls of a connection wait for disks at a time, each on a
	// thread of its own. env.FileTurns bounds the calls of all connections.
	maxFileCalls = 16
	// fileWindow is how many bytes of answers may wait to be written when a call begins.
	fileWindow = 1 << 20
	// maxWatches is how many watches a connection may have.
	maxWatches = 64
)

// Messages to a connection: from the goroutine of a call, from the writer, and from a watch.
type (
	fileDone struct {
		call   *fileCall
		result any
		err    error
	}
	fileWritten    struct{ call *fileCall }
	fileTurn       struct{} // env.FileTurns may have a turn now
	missingChanged struct{ watchID uint64 }
)

// fileCall is a request about the filesystem.
type fileCall struct {
	in     inbound
	do     func(context.Context) (any, error)
	c      files.Call        // that do makes, with paths alone as its places; zero: another
	handle string            // calls with the same handle run in the order sent; "": no handle
	watch  *fileWatch        // of fs/watch; nil: another method
	change *audit.FileChange // for the audit log; nil: the call changes no file. Without Path: the file of the handle
	bytes  int               // of its answer
	held   int               // of the connection's memory, for the answer; owned by the goroutine until fileDone

	sandbox *protocol.Sandbox // that the client asks for; nil: none
	jails   *jails

	large    bool // the answer may be large: a single such call until its answer is written
	serves   bool // a process of user can make the call
	ruled    bool // do obeys the rule
	readsAll bool // do reads files wherever they are, and changes none
	// required: the operator demands a sandbox. byDefault: programs without one get one, and those of all defaults read
	// everything. Both are owned by the goroutine.
	required, byDefault bool

	// The fields below are owned by the goroutine.

	// enter says that the call may wait for a filesystem, and leave that it waits for another process instead: as of
	// turns.Turn.
	enter func(filesystem string) error
	leave func()
	user  string      // as whom the call is made; "": the user of the server
	as    *audit.User // the user of the process that makes the call; nil: the server, or nobody so far
	rule  *rules.Rule // of the client, when the call runs; nil: there is no policy
}

// fileCalls has the calls about files of a connection. Calls wait for disks, so each has a goroutine.
// The admission bounds the calls in waiting.
type fileCalls struct {
	handles   *files.Handles
	watcher   *changes.Watcher
	ctx       context.Context // until the connection ends
	cancel    context.CancelFunc
	waiting   []*fileCall
	running   int
	busy      map[string]bool       // by fileCall.handle: a call is running
	large     bool                  // a large call is running, or its answer is not written
	unwritten int                   // bytes of answers
	watches   map[uint64]bool       // by watchId: without a notification so far
	watched   map[string]*fileWatch // by watchId: from fs/watch to fs/unwatch
	room      *budget.Part          // for the paths of fs/changed; nil before the first fs/watch
	waiter    *turns.Waiter         // for a turn, until fileTurn comes; nil: nothing waits
	memory    *budget.Account       // of the connection
	home      string                // the user's directory
	hidden    files.Hidden          // files of the server
	jails     *jails                // nil: no call is confined, in tests
}

func newFileCalls(watcher *changes.Watcher, memory *budget.Account) *fileCalls {
	ctx, cancel := context.WithCancel(context.Background())
	return &fileCalls{handles: new(files.Handles), watcher: watcher, ctx: ctx, cancel: cancel, busy: make(map[string]bool), watches: make(map[uint64]bool), memory: memory}
}

// holdTime is how long a call waits for memory for its answer. Not long: others wait for its turn.
const holdTime = 3 * time.Second

// encoded returns the memory of n bytes in an answer: the bytes themselves, and their base64.
func encoded(n int) int { return n * 7 / 3 }

// hold takes memory for n bytes of an answer.
func (call *fileCall) hold(memory *budget.Account) files.Hold {
	return func(n int) error {
		n = encoded(n)
		if n < 0 {
			memory.Give(-n)
		} else if err := memory.Take(n, holdTime); err != nil {
			return tryLater(err)
		}
		call.held += n
		return nil
	}
}

// tryLater is the error of a call for whose answer there is no memory.
func tryLater(err error) error {
	return protocol.Errorf(protocol.KindBusy, protocol.CodeInternal, "%v: try again later", err)
}

// end drops files that were written and not closed, and ends the watches. Running calls end once
// they look at their context.
func (f *fileCalls) end(turns *turns.Pool) {
	f.cancel()
	f.endJails() // before the handles, whose new files end with their jails
	if f.waiter != nil {
		turns.Forget(f.waiter)
	}
	go turns.RunAnyway(f.handles.CloseAll)
}

// endJails ends the jails of the connection; f may be nil.
func (f *fileCalls) endJails() {
	if f != nil && f.jails != nil {
		f.jails.owner.Close()
	}
}

// pending is how many have no answer; f may be nil.
func (f *fileCalls) pending() int {
	if f == nil {
		return 0
	}
	return len(f.waiting) + f.running
}

// take returns the next call that may run now, if turn allows. nil: no call may run.
func (f *fileCalls) take(turn func() bool) *fileCall {
	if f.running >= maxFileCalls || f.unwritten >= fileWindow {
		return nil
	}
	for i, call := range f.waiting {
		if f.busy[call.handle] || call.large && f.large {
			continue
		}
		if !turn() {
			return nil
		}
		f.waiting = append(f.waiting[:i], f.waiting[i+1:]...)
		f.running++
		f.busy[call.handle] = call.handle != ""
		f.large = f.large || call.large
		return call
	}
	return nil
}

// done is when a call has an answer.
func (f *fileCalls) done(call *fileCall) {
	f.running--
	delete(f.busy, call.handle)
	f.unwritten += call.bytes
}

// written is called when the answer of a call has been passed to the kernel.
func (f *fileCalls) written(call *fileCall) {
	f.unwritten -= call.bytes
	f.large = f.large && !call.large
}

// fileRequest takes a request about the filesystem. prepare sets up the call.
func (c *connection) fileRequest(ctx actor.Context, in inbound, prepare func(*fileCalls, *fileCall) error) {
	if c.files == nil {
		c.files = newFileCalls(c.env.Watcher, c.memory)
		if c.env.FileJails != nil {
			c.files.jails = &jails{owner: c.env.FileJails.Owner(c.name), resolve: c.env.FileView}
		}
		c.files.hidden = c.env.Hidden
		c.files.home, _ = protocol.ParseFileURI(c.env.Info.UserHomeDir) // the server's own URI is valid
	}
	call := &fileCall{in: in, jails: c.files.jails}
	err := prepare(c.files, call)
	if err == nil && in.entry != nil && in.entry.observer.reads && call.change != nil && call.change.Path != "" {
		err = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "%s changes a file, and the table of methods says that it only reads", in.method)
	}
	if err != nil {
		c.fail(in, in.fileError(err))
		return
	}
	c.files.waiting = append(c.files.waiting, call)
	c.runFiles(ctx)
}

// runFiles begins all calls that may begin.
func (c *connection) runFiles(ctx actor.Context) {
	self, root, fault := ctx.Self(), ctx.ActorSystem().Root, c.faultOf(ctx.Self())
	var refused *protocol.Error
	turn := func() bool {
		if c.files.waiter != nil {
			return false
		}
		w := &turns.Waiter{Told: func() { root.Send(self, fileTurn{}) }}
		ok, err := c.env.FileTurns.Take(c.files.running, w)
		if refused = err; !ok && err == nil {
			c.files.waiter = w
		}
		return ok || err != nil
	}
	for call := c.files.take(turn); call != nil; call = c.files.take(turn) {
		if refused != nil {
			ctx.Send(self, fileDone{call, nil, refused})
			continue
		}
		until, recorded, refused, identity, policy := c.files.ctx, c.recordFile(call), c.refusal(call.in.method), c.who().Identity, c.env.Rules
		c.env.Run(root, self, "file", func() {
			c.env.FileTurns.Run(func(turn *turns.Turn) {
				fault("file")
				call.enter, call.leave = func(filesystem string) error { return turn.Enter(until, filesystem) }, turn.Leave
				user, err := c.env.FileUser(identity)
				if call.user = user; err == nil {
					err = call.byUser()
				}
				if err != nil {
					refused(err.Message)
					root.Send(self, fileDone{call, nil, err})
					return
				}
				call.rule = policy.Of(identity)
				call.required, call.byDefault = c.env.RequireSandbox, c.env.DefaultSandbox != nil
				if call.rule != nil {
					call.required = call.required || call.rule.MustConfine()
					call.byDefault = call.byDefault || call.rule.Sandbox() != nil
				}
				result, failed := any(nil), call.mayRun()
				if failed == nil {
					result, failed = call.do(until)
				}
				recorded(failed)
				root.Send(self, fileDone{call, result, failed})
			})
		})
	}
}

func (c *connection) fileTurn(ctx actor.Context) {
	w, before := c.files.waiter, c.files.running
	c.files.waiter = nil
	c.runFiles(ctx)
	if c.files.running == before && c.files.waiter == nil {
		c.env.FileTurns.Forget(w)
	}
}

// receiveFiles handles the messages of calls about files and of watches.
func (c *connection) receiveFiles(ctx actor.Context, m any) {
	switch m := m.(type) {
	case fileDone:
		c.fileDone(ctx, m)
	case fileTurn:
		c.fileTurn(ctx)
	case fileWritten:
		c.fileWritten(ctx, m)
	case missingChanged:
		c.missingChanged(m)
	case filesChanged:
		c.filesChanged(m)
	}
}

func (c *connection) fileDone(ctx actor.Context, m fileDone) {
	c.finished++
	self, root := ctx.Self(), ctx.ActorSystem().Root
	asked, isWatch := m.call.in.params.(protocol.FsWatchMissingParams)
	m.call.in.params, m.call.do = nil, nil // the memory of both counts until the answer is written
	switch {
	case m.call.watch != nil:
		c.fileWatched(ctx, m)
	case m.err != nil:
		if isWatch {
			delete(c.files.watches, asked.WatchID)
		}
		c.memory.Give(m.call.held)
		c.fail(m.call.in, m.call.in.fileError(m.err))
	case isWatch:
		c.respond(m.call.in, protocol.FsWatchMissingResult{Watching: true})
		m.result.(*changes.Missing).Then(func() { root.Send(self, missingChanged{asked.WatchID}) })
	default:
		m.call.bytes = sizeOf(m.result)
		c.writer.control(outgoing{id: m.call.in.id, weight: m.call.in.weight, body: m.result, held: m.call.held})
	}
	c.files.done(m.call)
	c.writer.control(outgoing{written: func() { root.Send(self, fileWritten{m.call}) }})
	c.runFiles(ctx)
	c.mayClose(ctx)
}

func (c *connection) fileWritten(ctx actor.Context, m fileWritten) {
	c.files.written(m.call)
	c.runFiles(ctx)
}

// watch adds a watch, unless the connection has maxWatches.
func (f *fileCalls) watch(id uint64) error {
	if f.watches[id] {
		return protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "watch %d already exists", id)
	}
	if len(f.watches) >= maxWatches {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "there are %d watches on this connection, which is the most", maxWatches)
	}
	f.watches[id] = true
	return nil
}

func (c *connection) missingChanged(m missingChanged) {
	delete(c.files.watches, m.watchID)
	c.notify(protocol.NotifyMissingChanged, protocol.FsMissingChangedNotification{WatchID: m.watchID})
}

// sizeOf is about how large an answer is, in bytes.
func sizeOf(result any) int {
	switch r := result.(type) {
	case protocol.FsReadFileResult:
		return len(r.Data)
	case protocol.FsReadBlockResult:
		return len(r.Chunk)
	case protocol.FsReadDirectoryResult:
		return len(r.Entries) * 100
	case protocol.FsListResult:
		return len(r.Entries) * 150
	case protocol.FsWalkResult:
		return (len(r.Entries) + len(r.Errors)) * 100
	}
	return 0
}

// fileError translates err for the wire of a request. The app-server has no codes for a missing file
// and a missing permission.
// (exec-server wire §8.)
func (in *inbound) fileError(err error) *protocol.Error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e
	}
	code, app := protocol.CodeInternal, in.entry.ofApp(in.wire)
	if _, ok := errors.AsType[*files.Refusal](err); ok || errors.Is(err, rules.ErrRefused) || files.Forbidden(err) && !app {
		code = protocol.CodeInvalidRequest
	} else if errors.Is(err, fs.ErrNotExist) && !app {
		code = protocol.CodeNotFound
	}
	refused := protocol.Errorf(files.Kind(err), code, "%s", files.Text(err))
	if advised, ok := errors.AsType[*files.Advised](err); ok {
		refused.Advise("%s", advised.Advice)
	}
	return refused
}
