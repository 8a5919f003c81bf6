package holder

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// Server is the server's end of the connection to its holder. Any goroutine may call its methods.
type Server struct {
	// Number counts the servers of the holder, from 1.
	Number int
	// Last says how the server before has ended; "": this is the first server.
	Last string
	// Ended says when the server before has ended; zero: this is the first server.
	Ended time.Time
	// Found has everything kept by earlier servers.
	Found []Found

	parent  int
	socket  *os.File
	conn    syscall.RawConn // of socket
	bell    int             // an eventfd of the holder
	unheard atomic.Bool     // the holder may not have read all messages since the last ring of the bell
	later   *time.Timer     // rings the bell; runs while unheard
	lost    chan struct{}
	signals chan os.Signal
	asked   chan struct{}

	mu      sync.Mutex
	waits   map[target][]chan End // for the answers to Reap
	gone    bool                  // the holder has ended
	refused Refusal
}

type target struct {
	id  string
	pid int
}

// ErrLost means: the holder has ended, and its programs with the holder, because the kernel kills the programs.
var ErrLost = errors.New("holder: the holder has ended")

// variable is the environment variable with the descriptor of a server's socket to its holder.
const variable = "TROUPE_HOLDER"

// Socket returns the descriptor of this process's socket to its holder, if a holder has started this process as a server. A process calls
// Socket once, before it starts programs: they then inherit neither the descriptor nor the variable.
func Socket() (fd int, ok bool) {
	fd, err := strconv.Atoi(os.Getenv(variable))
	os.Unsetenv(variable)
	if err != nil || fd < 3 {
		return 0, false
	}
	if kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE); err != nil || kind != unix.SOCK_SEQPACKET {
		return 0, false // somebody else has set the variable
	}
	unix.CloseOnExec(fd)
	return fd, true
}

// Attach takes over the socket of a server to its holder, and returns once Found is complete.
func Attach(socket int) (*Server, error) {
	if err := unix.SetNonblock(socket, true); err != nil {
		return nil, fmt.Errorf("holder: its socket: %w", err)
	}
	s := &Server{
		parent: os.Getppid(), socket: os.NewFile(uintptr(socket), "holder"), lost: make(chan struct{}), signals: make(chan os.Signal, 16), asked: make(chan struct{}, 1), waits: make(map[target][]chan End),
	}
	var err error
	if s.conn, err = s.socket.SyscallConn(); err != nil {
		return nil, fmt.Errorf("holder: its socket: %w", err)
	}
	buf := newBuffer()
	m, err := s.receive(buf)
	switch {
	case err != nil:
		return nil, err
	case m.Kind != Hello:
		return nil, fmt.Errorf("holder: its first message is of kind %d, and not hello", m.Kind)
	case m.Number != Version:
		return nil, fmt.Errorf("holder: it speaks version %d, and this server version %d: start both from the same binary", m.Number, Version)
	case len(m.files) != 1:
		return nil, fmt.Errorf("holder: its first message has %d descriptors, and not one", len(m.files))
	}
	s.Number, s.Last = m.PID, m.Text
	s.bell = m.files[0]
	s.later = time.AfterFunc(math.MaxInt64, s.ring)
	if m.Time != 0 {
		s.Ended = time.Now().Add(time.Duration(m.Time - boottime()))
	}
	release := reserve()
	found := make(map[string]*Found)
	for m, err = s.receive(buf); err == nil && m.Kind == Kept; m, err = s.receive(buf) {
		f := found[m.ID]
		if f == nil {
			f = &Found{ID: m.ID, PID: m.PID, End: m.End, Note: m.Text, Files: make(map[string]int)}
			found[m.ID] = f
		}
		for i, name := range m.Names {
			f.Files[name] = m.files[i]
		}
	}
	release()
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

// low is the number from which on the descriptors in Found have their numbers. Each thread and each start with a table of open files of its own copies the
// table up to the highest number that it needs. What they need is opened after Found, and gets a lower number.
const low = 128

// reserve takes all descriptors below low until release is called.
func reserve() (release func()) {
	var taken []int
	release = func() { closeAll(taken) }
	null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	for fd := null; err == nil; fd, err = unix.FcntlInt(uintptr(null), unix.F_DUPFD_CLOEXEC, 3) { // an error costs time later, and nothing else
		if taken = append(taken, fd); fd >= low {
			break
		}
	}
	return release
}

// listen takes the answers of the holder until the holder ends.
func (s *Server) listen(buf []byte) {
	for {
		m, err := s.receive(buf)
		if err != nil {
			break
		}
		switch m.Kind {
		case Reaped:
		case Signal:
			if m.Number == uint64(syscall.SIGHUP) {
				s.refuse("")
			}
			select {
			case s.signals <- syscall.Signal(m.Number):
			default: // so many wait already
			}
			continue
		case Refused:
			s.refuse(m.Text)
			continue
		case Ask:
			select {
			case s.asked <- struct{}{}:
			default: // one answer is enough
			}
			continue
		default:
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
	close(s.asked)
}

func (s *Server) refuse(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused = Refusal{time.Now(), why}
}

// Refused returns the last refusal of an upgrade.
func (s *Server) Refused() Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// PID is the pid of the holder.
func (s *Server) PID() int { return s.parent }

// Lost returns a channel, closed at the end of the holder.
func (s *Server) Lost() <-chan struct{} { return s.lost }

// Signals returns the channel with the signals that the holder has got. Until the first server has said Up, the holder sends its signals to
// the process of the server instead.
func (s *Server) Signals() <-chan os.Signal { return s.signals }

// Asked returns the channel with the questions of the holder whether this server works, closed at the end of the holder. Alive answers.
func (s *Server) Asked() <-chan struct{} { return s.asked }

// Alive says: the server works. A server that has said Up, and leaves a question of Asked unanswered for half a minute, is killed.
func (s *Server) Alive() error { return s.send(&Message{Kind: Alive}) }

// receive waits for the next message.
func (s *Server) receive(buf []byte) (m Message, err error) {
	failed := s.conn.Read(func(fd uintptr) bool {
		m, err = receive(int(fd), buf)
		return err != unix.EAGAIN
	})
	return m, cmp.Or(failed, err)
}

// send sends a message, which the holder reads at once.
func (s *Server) send(m *Message) error {
	err := s.put(m)
	s.ring()
	return err
}

// unheardTime is how long a message may wait in the socket that has no answer.
const unheardTime = 10 * time.Millisecond

// sendSoon sends a message, which the holder reads with the next message of send, and after unheardTime at the latest. So most messages do not wake
// the holder. At the death of this process the holder reads all of them.
func (s *Server) sendSoon(m *Message) error {
	err := s.put(m)
	if s.unheard.CompareAndSwap(false, true) {
		s.later.Reset(unheardTime)
	}
	return err
}

// ring has the holder read all messages.
func (s *Server) ring() {
	s.unheard.Store(false)
	nonblock.Write(uintptr(s.bell), one[:]) // fails at 2^64-1 unheard rings
}

// put puts a message into the socket. From there the message arrives, also if this process is killed at once.
func (s *Server) put(m *Message) (err error) {
	for {
		failed := s.conn.Write(func(fd uintptr) bool {
			err = send(int(fd), m)
			full := errors.Is(err, unix.EAGAIN)
			if full {
				s.ring()
			}
			return !full
		})
		if err = cmp.Or(failed, err); !errors.Is(err, unix.ETOOMANYREFS) {
			break
		}
		s.ring()
		time.Sleep(time.Millisecond)
	}
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return ErrLost
	}
	return err
}

// Keep has the holder keep descriptors under an id, by name. A descriptor replaces an earlier descriptor of the same id and name. The server's own stay open. The id "" is the
// server's own.
func (s *Server) Keep(id string, files map[string]int) error { return s.KeepNoted(id, "", files) }

// KeepNoted is Keep, and has the holder keep a note, too, for the next server. An empty note leaves an earlier one as it is. The note has 60 KiB at most.
func (s *Server) KeepNoted(id, note string, files map[string]int) error {
	names := slices.Sorted(maps.Keys(files))
	for len(names) > 0 || note != "" {
		m := Message{Kind: Keep, ID: id, Text: note, Names: names[:min(len(names), MaxFiles)]}
		for _, name := range m.Names {
			m.files = append(m.files, files[name])
		}
		if err := s.sendSoon(&m); err != nil {
			return err
		}
		names, note = names[len(m.Names):], ""
	}
	return nil
}

// Drop has the holder close descriptors of an id. The server's own stay open. Unknown names do not matter.
func (s *Server) Drop(id string, names ...string) error {
	return s.send(&Message{Kind: Drop, ID: id, Names: names})
}

// Born tells the pid of the program of an id. The program is a child of the holder.
func (s *Server) Born(id string, pid int) error {
	return s.sendSoon(&Message{Kind: Born, ID: id, PID: pid})
}

// Reap has the holder reap the program of an id, if the program has ended. The zero End means: not ended.
func (s *Server) Reap(id string) (End, error) {
	return s.reap(target{id: id}, Message{Kind: Reap, ID: id})
}

// Look says how the program of an id has ended, and leaves it a zombie, unless it was reaped before. The zero End means: not ended.
func (s *Server) Look(id string) (End, error) {
	return s.reap(target{id: id}, Message{Kind: Look, ID: id})
}

// ReapOrphan has the holder reap an orphan, if the orphan has ended. The kernel gives orphans to the holder.
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

// Forget has the holder close everything of an id, and forget its end. Nobody reaps the program any more.
func (s *Server) Forget(id string) error { return s.sendSoon(&Message{Kind: Forget, ID: id}) }

// Up says: the server serves. If this server dies from now on, another server follows.
func (s *Server) Up() error { return s.send(&Message{Kind: Up}) }

// Stop says: no other server follows. After the end of this server the holder kills all programs, and ends.
func (s *Server) Stop() error { return s.send(&Message{Kind: Stop}) }
