package holder

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Found is what was kept under an id.
type Found struct {
	ID    string
	PID   int // 0: no program was born
	End   End
	Files map[string]int // descriptors by name, closed on exec; they belong to the server
}

// Server is the server's end of the connection to its holder. Any goroutine may call its methods.
type Server struct {
	// Number counts the servers of the holder, from 1.
	Number int
	// Last is how the server before has ended; "": this is the first one.
	Last string
	// Found has everything that earlier servers have had kept.
	Found []Found

	socket int
	lost   chan struct{}

	mu    sync.Mutex
	waits map[target][]chan End // for the answers to Reap
	gone  bool                  // the holder has ended
}

type target struct {
	id  string
	pid int
}

// ErrLost means that the holder has ended. Its programs have ended with it, since the kernel kills them.
var ErrLost = errors.New("holder: the holder has ended")

// Attach takes the connection of a server to its holder over. It returns once everything that was kept is there.
func Attach(socket int) (*Server, error) {
	s := &Server{socket: socket, lost: make(chan struct{}), waits: make(map[target][]chan End)}
	buf := newBuffer()
	m, err := receive(socket, buf)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != Hello:
		return nil, fmt.Errorf("holder: its first message is of kind %d, and not hello", m.Kind)
	case m.Number != Version:
		return nil, fmt.Errorf("holder: it speaks version %d, and this server version %d: start both from the same binary", m.Number, Version)
	}
	s.Number, s.Last = m.PID, m.Text
	found := make(map[string]*Found)
	for m, err = receive(socket, buf); err == nil && m.Kind == Kept; m, err = receive(socket, buf) {
		f := found[m.ID]
		if f == nil {
			f = &Found{ID: m.ID, PID: m.PID, End: m.End, Files: make(map[string]int)}
			found[m.ID] = f
		}
		for i, name := range m.Names {
			f.Files[name] = m.files[i]
		}
	}
	if err == nil && m.Kind != Ready {
		err = fmt.Errorf("holder: a message of kind %d before ready", m.Kind)
	}
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if s.Found = append(s.Found, *found[id]); err != nil {
			closeAll(slices.Collect(maps.Values(found[id].Files)))
		}
	}
	if err != nil {
		return nil, err
	}
	go s.listen(buf)
	return s, nil
}

// listen takes the answers of the holder until the holder ends.
func (s *Server) listen(buf []byte) {
	for {
		m, err := receive(s.socket, buf)
		if err != nil {
			break
		}
		if m.Kind != Reaped {
			closeAll(m.files)
			continue
		}
		at := target{m.ID, 0}
		if m.ID == "" {
			at.pid = m.PID
		}
		s.mu.Lock()
		if waits := s.waits[at]; len(waits) > 0 {
			waits[0] <- m.End
			if s.waits[at] = waits[1:]; len(waits) == 1 {
				delete(s.waits, at)
			}
		}
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.gone = true
	s.mu.Unlock()
	close(s.lost)
}

// Lost returns a channel that is closed when the holder has ended.
func (s *Server) Lost() <-chan struct{} { return s.lost }

// send sends a message. What was sent arrives, also if this process is killed at once.
func (s *Server) send(m *Message) error {
	err := send(s.socket, m)
	for ; errors.Is(err, unix.ETOOMANYREFS); err = send(s.socket, m) {
		time.Sleep(time.Millisecond)
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrLost
	}
	return err
}

// Keep has the holder keep descriptors under an id, by name. A descriptor replaces the one of the same id and name. The server's own stay open. The id "" is the
// server's own.
func (s *Server) Keep(id string, files map[string]int) error {
	names := slices.Sorted(maps.Keys(files))
	for len(names) > 0 {
		m := Message{Kind: Keep, ID: id, Names: names[:min(len(names), MaxFiles)]}
		for _, name := range m.Names {
			m.files = append(m.files, files[name])
		}
		if err := s.send(&m); err != nil {
			return err
		}
		names = names[len(m.Names):]
	}
	return nil
}

// Drop has the holder close descriptors of an id. The server's own stay open. Unknown names do not matter.
func (s *Server) Drop(id string, names ...string) error {
	return s.send(&Message{Kind: Drop, ID: id, Names: names})
}

// Born tells the pid of the program of an id. The program is a child of the holder.
func (s *Server) Born(id string, pid int) error {
	return s.send(&Message{Kind: Born, ID: id, PID: pid})
}

// Reap has the holder reap the program of an id, if it has ended. The zero End means that it has not.
func (s *Server) Reap(id string) (End, error) {
	return s.reap(target{id: id}, Message{Kind: Reap, ID: id})
}

// ReapOrphan has the holder reap a process that the kernel has given to it, if it has ended.
func (s *Server) ReapOrphan(pid int) (End, error) {
	return s.reap(target{pid: pid}, Message{Kind: Reap, PID: pid})
}

func (s *Server) reap(at target, m Message) (End, error) {
	answer := make(chan End, 1)
	s.mu.Lock()
	s.waits[at] = append(s.waits[at], answer)
	s.mu.Unlock()
	if err := s.send(&m); err != nil {
		return End{}, err
	}
	select {
	case e := <-answer:
		return e, nil
	case <-s.lost:
		return End{}, ErrLost
	}
}

// Forget has the holder close everything of an id, and forget its end. A program that runs becomes one that nobody reaps.
func (s *Server) Forget(id string) error { return s.send(&Message{Kind: Forget, ID: id}) }

// Up says that the server serves: if it dies from now on, another one follows.
func (s *Server) Up() error { return s.send(&Message{Kind: Up}) }

// Stop says that no server follows this one. When this one has ended, the holder kills what is left, and ends.
func (s *Server) Stop() error { return s.send(&Message{Kind: Stop}) }
