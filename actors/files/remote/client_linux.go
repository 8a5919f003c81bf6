package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// abortTime is how long Abort waits for a jail. Whatever Abort leaves, the end of the jail removes.
const abortTime = time.Second

// Client passes calls to one jail. A call whose context is done returns at once. Its
// place among the Workers stays taken until the jail has answered.
type Client struct {
	socket *socket
	slots  chan struct{} // a token for each call that the jail may have
	out    chan packet   // to send; closed with over
	ended  chan struct{} // closed when the jail answers no more

	mu    sync.Mutex // guards the fields below
	last  uint64     // id of a call
	under map[uint64]chan<- reply
	over  bool
}

// packet is a request with its file.
type packet struct {
	data []byte
	with *os.File // nil: none; closed after the packet was sent
}

// reply is an answer with its file.
type reply struct {
	answer
	file *os.File // nil: none
}

// NewClient returns the Client of the jail at the other end of a socket, which the Client takes over.
func NewClient(f *os.File) (*Client, error) {
	socket, err := newSocket(f)
	if err != nil {
		return nil, err
	}
	c := &Client{
		socket: socket,
		slots:  make(chan struct{}, Workers),
		out:    make(chan packet, 3*Workers), // of each slot a request, its cancellation, and the cancellation of the call before
		ended:  make(chan struct{}),
		under:  make(map[uint64]chan<- reply),
	}
	go c.receive()
	go c.send()
	return c, nil
}

// Ended is closed when the jail answers no more.
func (c *Client) Ended() <-chan struct{} { return c.ended }

// Close ends the jail. The calls under way fail.
func (c *Client) Close() { c.socket.close() }

// receive passes the answers on until the socket ends.
func (c *Client) receive() {
	buf := make([]byte, maxPacket)
	for {
		data, fd, err := c.socket.receive(buf)
		if err != nil {
			break
		}
		var r reply
		if fd >= 0 {
			r.file = os.NewFile(uintptr(fd), "file in the sandbox")
		}
		if err := json.Unmarshal(data, &r.answer); err != nil || !c.reply(r) {
			r.discard()
			if err != nil {
				break // what is no answer is no jail
			}
		}
	}
	c.socket.close()
	c.mu.Lock()
	c.over = true
	close(c.out)
	c.mu.Unlock()
	close(c.ended)
}

// discard closes the file of an answer that nobody waits for.
func (r reply) discard() {
	if r.file != nil {
		r.file.Close()
	}
}

// reply gives an answer to its call. False: there is no such call.
func (c *Client) reply(r reply) bool {
	c.mu.Lock()
	to, ok := c.under[r.ID]
	delete(c.under, r.ID)
	c.mu.Unlock()
	if ok {
		to <- r // has room for one
		<-c.slots
	}
	return ok
}

// send sends the packets of out until out is closed. After an error the socket is closed, so the rest is only dropped.
func (c *Client) send() {
	for p := range c.out {
		if err := c.socket.send(p.data, p.with); err != nil {
			c.socket.close() // receive closes out
		}
		p.with.Close() // of a nil file, Close does nothing
	}
}

// ask sends a request, and returns its answer. The caller owns the file of the answer. with goes with the request, and ask takes it
// over; nil: none.
func (c *Client) ask(ctx context.Context, r request, with *os.File) (reply, error) {
	begun := false
	defer func() {
		if !begun {
			with.Close()
		}
	}()
	select {
	case c.slots <- struct{}{}:
	case <-c.ended:
		return reply{}, ErrEnded
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
	answered := make(chan reply, 1)
	if err := c.begin(&r, with, answered); err != nil {
		<-c.slots
		return reply{}, err
	}
	begun = true
	var a reply
	select {
	case a = <-answered:
	case <-c.ended:
		select {
		case a = <-answered: // before the end
		default:
			return reply{}, ErrEnded
		}
	case <-ctx.Done():
		c.cancel(r.ID)
		go c.drop(answered)
		return reply{}, ctx.Err()
	}
	if a.Err != nil {
		a.discard()
		return reply{}, a.Err.Unpack()
	}
	return a, nil
}

func (c *Client) begin(r *request, with *os.File, answered chan<- reply) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return ErrEnded
	}
	c.last++
	r.ID = c.last
	data, err := encode(r)
	if err != nil {
		return err
	}
	if !c.post(packet{data, with}) {
		return ErrEnded
	}
	c.under[r.ID] = answered
	return nil
}

// post passes a packet to send. The caller holds mu. out has room, unless the jail answers requests that it does not have yet: then
// post ends the jail, and returns false.
func (c *Client) post(p packet) bool {
	select {
	case c.out <- p:
		return true
	default:
		c.socket.close()
		return false
	}
}

// cancel tells the jail that nobody waits for a call.
func (c *Client) cancel(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	data, err := encode(request{ID: id, Op: opCancel})
	if err == nil && c.under[id] != nil && !c.over {
		c.post(packet{data: data})
	}
}

// drop undoes a late answer.
func (c *Client) drop(answered <-chan reply) {
	select {
	case a := <-answered:
		a.discard()
		if a.Kept != 0 {
			c.abort(a.Kept)
		}
	case <-c.ended:
		select {
		case a := <-answered: // before the end
			a.discard()
		default:
		}
	}
}

// result returns the bytes of the result, for which hold has memory.
func (r *reply) result(hold files.Hold) ([]byte, error) {
	defer r.discard()
	if !r.InFile {
		return r.Result, hold.Take(len(r.Result))
	}
	if r.file == nil {
		return nil, fmt.Errorf("the sandbox has sent no result")
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &st); err != nil {
		return nil, err
	}
	if st.Size > maxResult {
		return nil, fmt.Errorf("the sandbox has sent a result of %d bytes: the most are %d", st.Size, maxResult)
	}
	if err := hold.Take(int(st.Size)); err != nil {
		return nil, err
	}
	data := make([]byte, st.Size)
	_, err := r.file.ReadAt(data, 0)
	return data, err
}

// chunk reads the bytes of an opRead into memory, and returns how many they are.
func (r *reply) chunk(into []byte) (n int, err error) {
	defer r.discard()
	if !r.InFile || r.file == nil {
		return 0, fmt.Errorf("the sandbox has sent no bytes")
	}
	if n, err = r.file.ReadAt(into, 0); err == io.EOF {
		err = nil
	}
	return n, err
}

// abort has the jail drop a file that it keeps.
func (c *Client) abort(id uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), abortTime)
	defer cancel()
	_, _ = c.ask(ctx, request{Op: opAbort, Kept: id}, nil) // a jail that does not answer is at its end
}

// file is a file that a jail keeps. A read or write by the jail ends at the latest with the jail.
type file struct {
	client *Client
	id     uint64
	here   *os.File // the server's descriptor; nil: the jail reads and writes
}

func (f *file) Here() *os.File { return f.here }

func (f *file) Commit(ctx context.Context) error {
	if f.here != nil {
		if err := f.here.Close(); err != nil { // a full filesystem may report its error only now
			f.client.abort(f.id)
			return err
		}
	}
	_, err := f.client.ask(ctx, request{Op: opCommit, Kept: f.id}, nil)
	if err != nil && ctx.Err() != nil {
		go f.client.abort(f.id) // perhaps nothing was sent; after opCommit, opAbort does nothing
	}
	return err
}

func (f *file) Discard() {
	f.here.Close() // of a nil file, Close does nothing
	f.client.abort(f.id)
}

func (f *file) ReadAt(p []byte, offset int64) (n int, err error) {
	if f.here != nil {
		return f.here.ReadAt(p, offset)
	}
	for n < len(p) {
		into := p[n:min(len(p), n+maxChunk)]
		a, err := f.client.ask(context.Background(), request{Op: opRead, Kept: f.id, Offset: offset + int64(n), Len: len(into)}, nil)
		if err != nil {
			return n, err
		}
		got, err := a.chunk(into)
		n += got
		switch {
		case err != nil:
			return n, err
		case got == 0:
			return n, io.EOF
		}
	}
	return n, nil
}

func (f *file) WriteAt(p []byte, offset int64) (n int, err error) {
	if f.here != nil {
		return f.here.WriteAt(p, offset)
	}
	for n < len(p) {
		part := p[n:min(len(p), n+maxChunk)]
		with, err := inMemory(part)
		if err != nil {
			return n, err
		}
		a, err := f.client.ask(context.Background(), request{Op: opWrite, Kept: f.id, Offset: offset + int64(n), Len: len(part)}, with)
		a.discard()
		if err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// Do passes a call to the jail, which holds the memory of the call except for its result.
func (c *Client) Do(ctx context.Context, call files.Call) (r files.Result, err error) {
	if err := check(call); err != nil {
		return r, err
	}
	a, err := c.ask(ctx, request{Op: opCall, Call: &call}, nil)
	if err != nil {
		return r, err
	}
	if call.Op == files.OpOpen {
		r.Size = a.Size
		r.File, err = c.opened(a)
		return r, err
	}
	data, err := a.result(call.Hold)
	if err != nil {
		return r, err
	}
	return call.Op.Decode(data)
}

// opened returns the file of an answer.
func (c *Client) opened(a reply) (files.Opened, error) {
	if a.Held {
		a.discard()
		return &file{client: c, id: a.Kept}, nil
	}
	if a.file == nil {
		return nil, fmt.Errorf("the sandbox has sent no file")
	}
	_ = a.file.SetReadDeadline(time.Now().Add(files.KernelTime)) // most files ignore the deadline
	if a.Kept == 0 {
		return files.Local{File: a.file}, nil
	}
	return &file{c, a.Kept, a.file}, nil
}
