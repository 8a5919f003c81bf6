package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/protocol"
)

// endTime is how long a jail without a server waits for its calls to end.
const endTime = time.Second

// server makes calls in a jail.
type server struct {
	socket *socket
	calls  files.Calls
	lock   func() error // gives up the rights of the calling thread

	work    chan *serving // to the workers
	workers int           // owned by serve
	locked  chan error    // of the first worker, and of one that has failed
	busy    sync.WaitGroup

	mu        sync.Mutex // guards the fields below
	under     map[uint64]*serving
	replacing map[uint64]files.Replacing
	last      uint64 // key of replacing
}

// serving is a call.
type serving struct {
	request
	ctx    context.Context
	cancel context.CancelFunc
}

// init serves files if this program is a jail for it: then main never runs.
func init() {
	fd, lock, ok := jail.Serving()
	if !ok {
		return
	}
	if err := serve(os.NewFile(uintptr(fd), "socket"), lock, jail.Ready, files.Local{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve makes the calls that come from a socket, which serve takes over, until the other end closes. Each thread that makes
// calls first calls lock. If lock fails, so does serve. After the first lock, serve calls ready, with the error of lock. At
// the end running calls get a second to end.
func serve(f *os.File, lock func() error, ready func(error) bool, calls files.Calls) error {
	socket, err := newSocket(f)
	if err != nil {
		return err
	}
	s := &server{
		socket: socket, calls: calls, lock: lock,
		work: make(chan *serving, Workers), locked: make(chan error, 1),
		under: make(map[uint64]*serving), replacing: make(map[uint64]files.Replacing),
	}
	defer s.end()
	s.addWorker()
	if err := <-s.locked; !ready(err) || err != nil {
		return err
	}
	buf := make([]byte, maxPacket)
	for {
		data, fd, err := socket.receive(buf)
		if fd >= 0 {
			unix.Close(fd) // the server sends none
		}
		if err != nil {
			select {
			case err := <-s.locked:
				return err
			default:
				return nil
			}
		}
		var r request
		if err := json.Unmarshal(data, &r); err != nil {
			return err
		}
		if err := s.take(r); err != nil {
			return err
		}
	}
}

// end cancels the calls, and waits for them a while.
func (s *server) end() {
	s.mu.Lock()
	for _, c := range s.under {
		c.cancel()
	}
	s.mu.Unlock()
	close(s.work)
	ended := make(chan struct{})
	go func() {
		s.busy.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(endTime):
	}
	s.socket.close()
}

// take begins a call, or cancels one.
func (s *server) take(r request) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Op == opCancel {
		if c := s.under[r.ID]; c != nil {
			c.cancel()
		}
		return nil
	}
	if len(s.under) >= Workers || s.under[r.ID] != nil {
		return errors.New("the server sends too many calls at a time")
	}
	c := &serving{request: r}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	s.under[r.ID] = c
	if len(s.under) > s.workers {
		s.addWorker()
	}
	s.work <- c // has room for all that are under way
	return nil
}

func (s *server) addWorker() {
	s.workers++
	s.busy.Add(1)
	go s.worker(s.workers == 1)
}

// worker makes one call after the other on a thread of its own.
func (s *server) worker(first bool) {
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	defer s.busy.Done()
	err := s.lock()
	if first || err != nil {
		select {
		case s.locked <- err:
		default: // another thread has failed as well
		}
	}
	if err != nil {
		s.socket.close() // ends serve
		return
	}
	for c := range s.work {
		s.make(c)
	}
	for r := s.forgetAny(); r != nil; r = s.forgetAny() {
		r.Abort()
	}
}

// make makes a call and answers.
func (s *server) make(c *serving) {
	result, opened, err := any(nil), files.Opened{}, c.ctx.Err()
	if err == nil {
		result, opened, err = s.call(c)
	}
	a := answer{ID: c.ID}
	var with *os.File
	if err == nil {
		with, err = s.fill(&a, result, opened)
	}
	if err != nil {
		a = answer{ID: c.ID, Err: files.Pack(err)}
	}
	data, err := encode(a)
	if err != nil { // of a very long text
		data, _ = encode(answer{ID: c.ID, Err: files.Pack(err)})
	}
	s.mu.Lock()
	delete(s.under, c.ID) // before the answer: after it the server may send another call
	s.mu.Unlock()
	c.cancel()
	sent := s.socket.send(data, with)
	switch {
	case a.Replacing != 0 && sent != nil:
		if r := s.forget(a.Replacing); r != nil { // else another worker, at its end, has aborted it
			r.Abort()
		}
	case a.Replacing != 0: // open until opCommit or opAbort
	case with != nil:
		with.Close()
	}
}

// call makes a call with the functions of package files.
func (s *server) call(c *serving) (result any, opened files.Opened, err error) {
	at, from, hold := c.at(), c.From.place(), holdUpTo(maxResult)
	switch c.Op {
	case opOpen:
		opened, err = s.calls.Open(c.ctx, at, c.Mode)
	case opCommit, opAbort:
		r := s.forget(c.Replacing)
		switch {
		case r == nil && c.Op == opCommit:
			err = errors.New("the new file is gone from the sandbox: open it and write it again")
		case r == nil:
		case c.Op == opCommit:
			err = r.Commit(c.ctx)
		default:
			r.Abort()
		}
	case opCreateDirectory:
		err = s.calls.CreateDirectory(c.ctx, at, c.Recursive)
	case opStat:
		result, err = s.calls.Stat(c.ctx, at)
	case opCanonicalize:
		var path string
		path, err = s.calls.Canonicalize(c.ctx, at.Place)
		result = []byte(path)
	case opReadDirectory:
		result, err = s.calls.ReadDirectory(c.ctx, at.Place, hold)
	case opWalk:
		if c.Walk == nil {
			c.Walk = new(protocol.FsWalkOptions)
		}
		result, err = s.calls.Walk(c.ctx, at.Place, *c.Walk, hold)
	case opRemove:
		err = s.calls.Remove(c.ctx, at, c.Recursive, c.Force)
	case opCopy:
		err = s.calls.Copy(c.ctx, from, at.Place, c.Recursive, hold)
	case opEntry:
		result, err = s.calls.Entry(c.ctx, at.Place, c.Follow)
	case opList:
		result, err = s.calls.List(c.ctx, at.Place, hold)
	case opRename:
		err = s.calls.Rename(c.ctx, from, at.Place)
	case opSymlink:
		err = s.calls.Symlink(c.ctx, at.Place, string(c.Target))
	case opSetMetadata:
		err = s.calls.SetMetadata(c.ctx, at.Place, c.Bits, c.ModifiedAtMs)
	default:
		err = errors.New("the sandbox does not know this call")
	}
	return result, opened, err
}

// holdUpTo returns a Hold of n bytes. The server holds the memory of its clients.
func holdUpTo(n int) files.Hold {
	return func(more int) error {
		if n -= more; n < 0 {
			return files.Refuse(protocol.KindTooLarge, "the call takes more than %d bytes in the sandbox", maxResult)
		}
		return nil
	}
}

// fill puts what a call has brought into its answer. with is the file to send.
func (s *server) fill(a *answer, result any, opened files.Opened) (with *os.File, err error) {
	if opened.File != nil {
		if opened.Replaces != nil {
			if a.Replacing, err = s.keep(opened.Replaces); err != nil {
				opened.Discard()
				return nil, err
			}
		}
		return opened.File, nil
	}
	if result == nil {
		return nil, nil
	}
	if a.Result, err = json.Marshal(result); err != nil || len(a.Result) <= maxPacket/2 {
		return nil, err
	}
	with, err = inMemory(a.Result)
	a.Result, a.InFile = nil, true
	return with, err
}

// inMemory returns a file in memory.
func inMemory(data []byte) (*os.File, error) {
	fd, err := unix.MemfdCreate("troupe-result", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "result")
	if _, err := f.Write(data); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (s *server) keep(r files.Replacing) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replacing) >= maxReplacing {
		return 0, files.Refuse(protocol.KindLimit, "%d files wait to replace others, which is the most: close some", maxReplacing)
	}
	s.last++
	s.replacing[s.last] = r
	return s.last, nil
}

// forget removes a new file from those that wait; nil: there is no such file.
func (s *server) forget(id uint64) files.Replacing {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.replacing[id]
	delete(s.replacing, id)
	return r
}

// forgetAny removes any new file from those that wait; nil: there is none.
func (s *server) forgetAny() files.Replacing {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, r := range s.replacing {
		delete(s.replacing, id)
		return r
	}
	return nil
}
