package child

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/lane"
)

// ttyMove is how many bytes are moved from a terminal at a time: the kernel takes pages for all that is asked, and has 4 KiB at most.
const ttyMove = 4 << 10

// moveKept moves available output to the chain of the Intake. This program may be killed at any instruction: the next one goes on with the lane.
//
//go:noinline // as for move
func (s *stream) moveKept() bool {
	most := lane.Size
	if s.p.tty {
		most = ttyMove
	}
	credit, ok := s.p.in.Take(most)
	if !ok {
		s.drop()
		return false
	}
	most = credit.N
	if credit.Spool != nil { // the disk may be slow, and other programs need lanes
		s.p.host.spoolers <- struct{}{}
		defer func() { <-s.p.host.spoolers }()
		most = min(most, arena.MaxEntry-estate.PlaceSize)
	}
	l := <-s.p.host.lanes
	offset, n, err := s.takeBy(l, most)
	switch {
	case n == 0:
		s.p.in.GiveBack(credit)
	case credit.Spool != nil:
		err = s.spool(l, offset, n, credit)
	default:
		err = s.keep(l, offset, n, credit)
	}
	s.p.host.lanes <- l
	s.putOut(n)
	return err == nil || errors.Is(err, unix.EAGAIN)
}

// takeBy moves up to most bytes to a lane.
func (s *stream) takeBy(l *lane.Lane, most int) (offset uint64, n int, err error) {
	err = io.EOF
	s.conn.Control(func(fd uintptr) {
		s.mu.Lock()
		defer s.mu.Unlock()
		offset = s.read
		if s.abandoned {
			if most = int(min(uint64(most), s.last-s.read)); most == 0 {
				err = unix.EAGAIN
				return
			}
		}
		n, err = l.Take(int(fd), most, estate.Stream(s.p.in.Chain.Owner(), uint8(s.kind)), offset)
		s.read += uint64(n)
		s.growFor(fd, n)
	})
	return offset, n, err
}

// keep moves n bytes from a lane to the chain, and frees the lane.
func (s *stream) keep(l *lane.Lane, offset uint64, n int, credit Credit) error {
	room, err := s.p.in.Reserve(s.kind, n)
	if err != nil {
		return s.keepNot(l, offset, n, credit, err)
	}
	l.At(room.Place())
	if err := l.Read(room.Data()); err != nil {
		return s.keepNot(l, offset, n, credit, err)
	}
	s.p.in.PutKept(s.kind, room, offset, credit)
	s.count(l, offset+uint64(n))
	return nil
}

// count ends the move of output to the chain, which has the bytes of the stream up to end.
func (s *stream) count(l *lane.Lane, end uint64) {
	s.p.in.Chain.Word(int(s.kind)).Store(end)
	l.Free()
}

// spool moves n bytes from a lane to the file of the process, and their place to the chain, and frees the lane.
func (s *stream) spool(l *lane.Lane, offset uint64, n int, credit Credit) error {
	room, err := s.p.in.Chain.Reserve(estate.PlaceSize + n)
	if err != nil {
		return s.keepNot(l, offset, n, credit, err)
	}
	data := room.Data()[estate.PlaceSize:]
	l.At(room.Place() + estate.PlaceSize)
	if err := l.Read(data); err != nil {
		return s.keepNot(l, offset, n, credit, err)
	}
	at, err := credit.Spool.Write(data)
	if err != nil {
		credit = s.unspool(n, credit, err)
	}
	s.p.in.PutSpooled(s.kind, room, n, at, offset, credit)
	s.count(l, offset+uint64(n))
	return nil
}

// keepNot takes output that cannot be kept for the next program: viewers of this one get the output. The lane is empty then.
func (s *stream) keepNot(l *lane.Lane, offset uint64, n int, credit Credit, why error) error {
	s.p.host.log.Error("output that the next server will not have", "pid", s.p.PID(), "bytes", n, "err", why)
	if credit.Spool != nil {
		credit.Spool.Return(int64(n))
		credit = s.unspool(n, credit, why)
	}
	data := make([]byte, n)
	if err := l.Drain(data); err != nil {
		s.p.in.GiveBack(credit)
		return errors.Join(err, l.Empty()) // the lane has nothing for its next owner
	}
	s.p.in.Put(s.kind, data, nil, credit, 0)
	s.count(l, offset+uint64(n))
	return nil
}
