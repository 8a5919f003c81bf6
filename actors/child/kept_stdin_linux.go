package child

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/lane"
)

// keptStdin is the queue of stdin in memory that outlives this program. Whoever owns the writing side of the file owns given.
type keptStdin struct {
	chain *arena.Chain // nil: there is none
	put   uint64       // the offset after the newest byte
	given uint64       // the offset after the newest byte that the child has
}

// fillMost is how many bytes are put into a lane at a time: the child may take only a few of them.
const fillMost = 16 << 10

// restore takes over what an earlier program has left.
func (s *stdin) restore() {
	k := &s.kept
	if k.chain = s.p.in.Input; k.chain == nil {
		return
	}
	k.given = k.chain.Word(estate.WordGiven).Load()
	k.put = k.given
	for e := range k.chain.Entries() {
		if in := estate.InputOf(e); in.End() > k.given {
			s.queue = append(s.queue, in.Data[max(k.given, in.From)-in.From:]...)
			k.put = in.End()
		}
	}
}

// resume goes on with the queue of an earlier program.
func (s *stdin) resume() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.queue) > 0 && !s.writing && s.open {
		s.writing = true
		go s.writer()
	}
}

// keep adds the first bytes of b to the chain, with the id of their write, and returns these bytes: from now on the next program gives them to the
// child, if this one does not. rest is how many bytes are left of the write, with these. The caller holds the lock.
func (s *stdin) keep(id [16]byte, b []byte, rest int) ([]byte, error) {
	k := &s.kept
	if k.chain == nil {
		return b, nil
	}
	b = b[:min(len(b), arena.MaxEntry-len(id))]
	e, err := k.chain.Reserve(len(id) + len(b))
	if err != nil {
		s.p.host.log.Error("stdin is closed", "pid", s.p.PID(), "err", err)
		return nil, err
	}
	copy(e.Data(), id[:])
	copy(e.Data()[len(id):], b)
	k.chain.Commit(e, len(id)+len(b), estate.HeaderOfInput(k.put, len(b) == rest))
	k.put += uint64(len(b))
	return b, nil
}

// moveKept gives the child the first bytes of the queue. This program may be killed at any instruction: the next one goes on with the lane.
func (s *stdin) moveKept(fd uintptr, b []byte) (n int, err error) {
	k, l := &s.kept, <-s.p.host.lanes // pumps hold the lanes for the time of a read
	defer func() { s.p.host.lanes <- l }()
	b = b[:min(len(b), fillMost)]
	if err := l.Fill(b, lane.Move{Stream: estate.Stream(k.chain.Owner(), 0), Offset: k.given}); err != nil {
		return 0, err
	}
	n, err = l.Give(int(fd))
	k.given += uint64(n)
	k.chain.Word(estate.WordGiven).Store(k.given)
	if n == len(b) {
		l.Free()
	} else if failed := l.Empty(); failed != nil {
		return n, failed
	}
	if errors.Is(err, unix.EAGAIN) {
		err = nil
	}
	return n, err
}
