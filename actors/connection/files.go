package connection

import (
	"context"
	"errors"
	"io/fs"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/connection/queue"
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

// fileDone is from the goroutine of a call.
type fileDone struct {
	call   *fileCall
	result any
	err    error
}

// fileCall is a request about the filesystem.
type fileCall struct {
	in    inbound
	files *fileCalls
	turn  queue.Call[*fileCall]
	do    func(context.Context) (any, error)
	// finish answers the request, on the actor. Nil: the answer is the result of do.
	finish func(r Request, result any, err error)
	change *audit.FileChange // for the audit log; nil: the call changes no file. Without Path: the file of the handle
	held   int               // of the connection's memory, for the answer; owned by the goroutine until fileDone

	sandbox  *protocol.Sandbox // that the client asks for; nil: none. Owned by the goroutine once the call has begun
	serves   bool              // a process of user can make the call
	ruled    bool              // do obeys the rule
	readsAll bool              // do reads files wherever they are, and changes none

	// The fields below are owned by the goroutine.

	// required: the operator demands a sandbox. byDefault: programs without one get one, and those of all defaults read
	// everything.
	required, byDefault bool
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
	queue.Queue[*fileCall]
	handles *files.Handles
	watcher *changes.Watcher
	ctx     context.Context // until the connection ends
	cancel  context.CancelFunc
	watches map[uint64]bool // by watchId of fs/watchMissing: without a notification so far
	waiter  *turns.Waiter   // for a turn, until it comes; nil: nothing waits
	memory  *budget.Account // of the connection
	home    string          // the user's directory
	hidden  files.Hidden    // files of the server
	jails   *jails          // nil: no call is confined, in tests
}

func newFileCalls(watcher *changes.Watcher, memory *budget.Account) *fileCalls {
	ctx, cancel := context.WithCancel(context.Background())
	return &fileCalls{
		Queue:   queue.New[*fileCall](maxFileCalls, fileWindow),
		handles: new(files.Handles), watcher: watcher, ctx: ctx, cancel: cancel, watches: make(map[uint64]bool), memory: memory,
	}
}

// call returns a new call for a request.
func (f *fileCalls) call(in inbound) *fileCall {
	call := &fileCall{in: in, files: f}
	call.turn.Of = call
	return call
}

// holdTime is how long a call waits for memory for its answer. Not long: others wait for its turn.
const holdTime = 3 * time.Second

// encoded returns the memory of n bytes in an answer: the bytes themselves, and their base64.
func encoded(n int) int { return n * 7 / 3 }

// hold takes memory for n bytes of the answer.
func (call *fileCall) hold(n int) error {
	n = encoded(n)
	if n < 0 {
		call.files.memory.Give(-n)
	} else if err := call.files.memory.Take(n, holdTime); err != nil {
		return tryLater(err)
	}
	call.held += n
	return nil
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
	return f.Waiting() + f.Running()
}

// filesOf returns the calls about files of the connection.
func (c *connection) filesOf() *fileCalls {
	if c.files == nil {
		c.files = newFileCalls(c.env.Watcher, c.memory)
		if c.env.FileJails != nil {
			c.files.jails = &jails{owner: c.env.FileJails.Owner(c.name), resolve: c.env.FileView}
		}
		c.files.hidden = c.env.Hidden
		c.files.home, _ = protocol.ParseFileURI(c.env.Info.UserHomeDir) // the server's own URI is valid
	}
	return c.files
}

// fileRequest takes a request about the filesystem. prepare sets up the call.
func (c *connection) fileRequest(ctx actor.Context, in inbound, prepare func(*fileCall) error) {
	call := c.filesOf().call(in)
	err := prepare(call)
	if err == nil && in.entry != nil && in.entry.Observer.reads && call.change != nil && call.change.Path != "" {
		err = protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "%s changes a file, and the table of methods says that it only reads", in.method)
	}
	if err != nil {
		c.fail(in, in.fileError(err))
		return
	}
	c.files.Add(&call.turn)
	c.runFiles(ctx)
}

// runFiles begins all calls that may begin, while there are turns for them.
func (c *connection) runFiles(ctx actor.Context) {
	self, root, f := ctx.Self(), ctx.ActorSystem().Root, c.files
	for call, ok := f.Next(); ok && f.waiter == nil; call, ok = f.Next() {
		w := &turns.Waiter{Told: c.later(ctx, (*connection).fileTurn)}
		has, refused := c.env.FileTurns.Take(f.Running(), w)
		switch {
		case refused != nil:
			f.Begin(call)
			root.Send(self, fileDone{call.Of, nil, refused})
		case has:
			f.Begin(call)
			c.runFile(ctx, call.Of)
		default:
			f.waiter = w
		}
	}
}

// runFile has a goroutine make a call that has a turn.
func (c *connection) runFile(ctx actor.Context, call *fileCall) {
	self, root, fault, e := ctx.Self(), ctx.ActorSystem().Root, c.faultOf(ctx.Self()), c.env
	until, recorded, refused, who := c.files.ctx, c.recordFile(call), c.refusal(call.in.method), c.about.Identity.Name
	e.Run(root, self, "file", func() {
		e.FileTurns.Run(func(turn *turns.Turn) {
			fault("file")
			call.enter, call.leave = func(filesystem string) error { return turn.Enter(until, filesystem) }, turn.Leave
			if err := call.asFor(e, who); err != nil {
				refused(err.Message)
				root.Send(self, fileDone{call, nil, err})
				return
			}
			result, err := any(nil), call.mayRun()
			if err == nil {
				result, err = call.do(until)
			}
			recorded(err)
			root.Send(self, fileDone{call, result, err})
		})
	})
}

// fileTurn is when there may be a turn for a call.
func (c *connection) fileTurn(ctx actor.Context) {
	w, before := c.files.waiter, c.files.Running()
	c.files.waiter = nil
	c.runFiles(ctx)
	if c.files.Running() == before && c.files.waiter == nil {
		c.env.FileTurns.Forget(w)
	}
}

func (c *connection) fileDone(ctx actor.Context, m fileDone) {
	c.finished++
	call, finish, bytes := m.call, m.call.finish, 0
	in := call.in
	call.in.params, call.do, call.finish = nil, nil, nil // the memory of all three counts until the answer is written
	switch {
	case finish != nil:
		finish(Request{c, ctx, call.in}, m.result, m.err)
	case m.err != nil:
		c.memory.Give(call.held)
		c.fail(in, in.fileError(m.err))
	default:
		bytes = sizeOf(m.result)
		if reword := in.entry.in(in.wire).reword; reword != nil {
			m.result = reword(m.result)
		}
		c.writer.control(outgoing{asked: in.asked, body: m.result, held: call.held})
	}
	c.files.Done(&call.turn, bytes)
	c.writer.control(outgoing{written: c.later(ctx, func(c *connection, ctx actor.Context) {
		c.files.Written(&call.turn)
		c.runFiles(ctx)
	})})
	c.runFiles(ctx)
	c.mayClose(ctx)
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

// watchMissing prepares fs/watchMissing. Each watch gives a single notification. While a watch waits, the connection keeps its id, and not
// its params.
func watchMissing(call *fileCall, p protocol.FsWatchMissingParams) error {
	f, id := call.files, p.WatchID
	look := func(ctx context.Context, places []files.Place) (any, error) {
		return f.watcher.Missing(ctx, places[:len(p.Missing)], places[len(p.Missing):])
	}
	call.looks(look, func(r Request, result any, err error) {
		if err != nil {
			delete(f.watches, id)
			r.Fail(r.FileError(err))
			return
		}
		r.Respond(protocol.FsWatchMissingResult{Watching: true})
		result.(*changes.Missing).Then(r.Later(func(r Request) {
			delete(f.watches, id)
			r.c.notify(protocol.NotifyMissingChanged, protocol.FsMissingChangedNotification{WatchID: id})
		}))
	}, p.Missing, p.Present)
	return f.watch(id)
}

// looks prepares a call that looks at places: do gets the places of URIs that the client may read, and finish answers.
func (call *fileCall) looks(do func(context.Context, []files.Place) (any, error), finish func(r Request, result any, err error), uris ...[]string) {
	call.ruled, call.finish = true, finish
	call.do = func(ctx context.Context) (any, error) {
		places, err := call.allToRead(slices.Concat(uris...))
		if err != nil {
			return nil, err
		}
		return do(ctx, places)
	}
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

// fileError translates err for the wire of a request.
// (exec-server wire §8.)
func (in *inbound) fileError(err error) *protocol.Error {
	if e, ok := errors.AsType[*protocol.Error](err); ok {
		return e
	}
	code := protocol.CodeInternal
	if _, ok := errors.AsType[*files.Refusal](err); ok || errors.Is(err, rules.ErrRefused) || files.Forbidden(err) {
		code = protocol.CodeInvalidRequest
	} else if errors.Is(err, fs.ErrNotExist) {
		code = protocol.CodeNotFound
	}
	refused := protocol.Errorf(files.Kind(err), code, "%s", files.Text(err))
	if advised, ok := errors.AsType[*files.Advised](err); ok {
		refused.Advise("%s", advised.Advice)
	}
	if d := in.entry.in(in.wire).dialect; d != nil {
		d.FileError(err, refused)
	}
	return refused
}
