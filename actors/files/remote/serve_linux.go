package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"syscall"
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
	by     files.Caller // makes the calls
	lock   func() error // gives up the rights of the calling thread
	holds  bool         // the server gets no descriptors of files

	work    chan *serving // to the workers
	workers int           // owned by serve
	locked  chan error    // of the first worker, and of one that has failed
	busy    sync.WaitGroup

	mu    sync.Mutex // guards the fields below
	under map[uint64]*serving
	kept  map[uint64]files.Opened
	last  uint64 // key of kept
}

// serving is a call.
type serving struct {
	request
	bytes  *os.File // of opWrite; nil: none came
	ctx    context.Context
	cancel context.CancelFunc
}

// init serves files if this program is a jail for it: then main never runs.
func init() {
	fd, lock, otherUser, ok := jail.Serving()
	if !ok {
		return
	}
	s := &server{by: files.Do, lock: lock, holds: otherUser}
	if err := s.serve(os.NewFile(uintptr(fd), "socket"), jail.Ready); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serve makes the calls that come from a socket, which serve takes over, until the other end closes. The caller has set by,
// lock and holds. Each thread that makes calls first calls lock. If lock fails, so does serve. After the first lock, serve
// calls ready, with the error of lock. At the end running calls get a second to end.
func (s *server) serve(f *os.File, ready func(error) bool) error {
	socket, err := newSocket(f)
	if err != nil {
		return err
	}
	s.socket, s.work, s.locked = socket, make(chan *serving, Workers), make(chan error, 1)
	s.under, s.kept = make(map[uint64]*serving), make(map[uint64]files.Opened)
	defer s.end()
	s.addWorker()
	if err := <-s.locked; !ready(err) || err != nil {
		return err
	}
	buf := make([]byte, maxPacket)
	for {
		data, fd, err := socket.receive(buf)
		var bytes *os.File
		if fd >= 0 {
			bytes = os.NewFile(uintptr(fd), "bytes")
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
		if err := s.take(r, bytes); err != nil {
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
func (s *server) take(r request, bytes *os.File) error {
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
	c := &serving{request: r, bytes: bytes}
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
	for o := s.forgetAny(); o != nil; o = s.forgetAny() {
		o.Discard()
	}
}

// make makes a call and answers.
func (s *server) make(c *serving) {
	a := answer{ID: c.ID}
	with, err := (*os.File)(nil), c.ctx.Err()
	if err == nil {
		with, err = s.do(c, &a)
	}
	c.bytes.Close() // of a nil file, Close does nothing
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
	case a.Kept != 0 && sent != nil:
		s.abort(a.Kept) // unless another worker has, at its end
	case a.Kept != 0: // open until opCommit or opAbort
	case with != nil:
		with.Close()
	}
}

// do does what a request asks for, and fills the answer in. with is the file to send.
func (s *server) do(c *serving, a *answer) (with *os.File, err error) {
	switch c.Op {
	case opCall:
		return s.call(c, a)
	case opCommit:
		if o := s.forget(c.Kept); o != nil {
			return nil, o.Commit(c.ctx)
		}
		return nil, errGone
	case opAbort:
		s.abort(c.Kept)
		return nil, nil
	case opRead:
		bytes, err := s.read(c)
		if err != nil {
			return nil, err
		}
		a.InFile = true
		return inMemory(bytes)
	case opWrite:
		return nil, s.write(c)
	}
	return nil, errUnknown
}

// call makes a files.Call.
func (s *server) call(c *serving, a *answer) (with *os.File, err error) {
	if c.Call == nil {
		return nil, errUnknown
	}
	c.Call.Hold = holdUpTo(maxResult)
	r, err := s.by(c.ctx, *c.Call)
	if err != nil {
		return nil, err
	}
	if r.File != nil {
		a.Size = r.Size
		return s.sends(r.File, c.Call.Mode == protocol.FsReplace, a)
	}
	if a.Result, err = c.Call.Op.Encode(r); err != nil || len(a.Result) <= maxPacket/2 {
		return nil, err
	}
	with, err = inMemory(a.Result)
	a.Result, a.InFile = nil, true
	return with, err
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

// sends puts an open file into an answer. A new file gets its place from here.
func (s *server) sends(o files.Opened, isNew bool, a *answer) (with *os.File, err error) {
	if a.Held = s.holds; a.Held || isNew {
		if a.Kept, err = s.keep(o); err != nil {
			o.Discard()
			return nil, err
		}
	}
	if a.Held {
		return nil, nil
	}
	return o.Here(), nil // package files has opened it
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

func (s *server) keep(o files.Opened) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxKept {
		return 0, files.Refuse(protocol.KindLimit, "%d files are open, or wait to replace others, which is the most: close some", maxKept)
	}
	s.last++
	s.kept[s.last] = o
	return s.last, nil
}

// forget removes a file from those that are kept. Nil: there is no such file.
func (s *server) forget(id uint64) files.Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.kept[id]
	delete(s.kept, id)
	return o
}

// forgetAny removes any file from those that are kept; nil if there is none.
func (s *server) forgetAny() files.Opened {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, o := range s.kept {
		delete(s.kept, id)
		return o
	}
	return nil
}

// abort discards a file, if it is kept.
func (s *server) abort(id uint64) {
	if o := s.forget(id); o != nil {
		o.Discard()
	}
}

// errUnknown refuses a request that is none.
var errUnknown = errors.New("the sandbox does not know this call")

// errGone refuses a call about a file that the jail does not keep.
var errGone = errors.New("the file is no longer open in the process that serves files: open it again")

// held returns a held file.
func (s *server) held(id uint64) (files.Opened, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.kept[id]; s.holds && o != nil {
		return o, nil
	}
	return nil, errGone
}

// read reads up to Len bytes, or fewer at the end of the file.
func (s *server) read(c *serving) ([]byte, error) {
	f, err := s.held(c.Kept)
	if err != nil {
		return nil, err
	}
	bytes, err := c.room()
	if err != nil {
		return nil, err
	}
	n, err := f.ReadAt(bytes, c.Offset)
	if err == io.EOF {
		err = nil
	}
	return bytes[:n], err
}

// write writes the Len bytes of the file in memory that came with the call.
func (s *server) write(c *serving) error {
	f, err := s.held(c.Kept)
	if err != nil {
		return err
	}
	bytes, err := c.room()
	if err != nil {
		return err
	}
	if _, err := c.bytes.ReadAt(bytes, 0); err != nil {
		return err
	}
	_, err = f.WriteAt(bytes, c.Offset)
	return err
}

// room returns memory for Len bytes.
func (c *serving) room() ([]byte, error) {
	if c.Len < 0 || c.Len > maxChunk {
		return nil, syscall.EINVAL
	}
	return make([]byte, c.Len), nil
}
