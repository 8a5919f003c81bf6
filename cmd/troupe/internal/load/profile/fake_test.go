//go:build unix

package profile

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A fake is a session. The test plays the server, and runs real programs. The fields of the first part are set before use.
type fake struct {
	t     *testing.T
	peers bool // play the peer's server: no restarts, no observers, no closeStdin, one signal
	// change may change, drop or add events on their way; nil: events arrive unchanged.
	change func(e oracle.Event) []oracle.Event
	// toObserver works as change, for the events of observers.
	toObserver func(e oracle.Event) []oracle.Event
	gone       bool // the connections of observers have ended when the task waits for them
	// spoil may change the bytes for stdin; nil: they stay unchanged.
	spoil func(p []byte) []byte
	// write, if not nil, takes the place of Write.
	write func(data []byte, done func(error)) error
	// answer, if not nil, may change the answer to a request after its effect.
	answer func(params any, err error) error
	refuse error         // of starts
	unseen error         // of observers
	mute   bool          // requests that end programs are answered without effect
	slow   time.Duration // until a start is done

	running sync.WaitGroup // programs, with their pumps

	mu        sync.Mutex
	lost      bool
	followers map[string]func(*oracle.Event, time.Time)
	observers map[int]func(string, *oracle.Event, time.Time)
	programs  map[string]*fakeProgram
	observed  int
	left      time.Time // of the last Leave, and back is its end
	back      time.Time
	calls     []string
}

type fakeProgram struct {
	s      *fake
	start  protocol.ProcessStartParams
	events sync.Mutex // held while an event is delivered
	seq    uint64

	mu      sync.Mutex
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	run     int
	restart bool
	over    bool
	written chan struct{} // closed when the last write is done
}

func newFake(t *testing.T) *fake {
	s := &fake{
		t: t, followers: make(map[string]func(*oracle.Event, time.Time)), observers: make(map[int]func(string, *oracle.Event, time.Time)),
		programs: make(map[string]*fakeProgram),
	}
	t.Cleanup(func() {
		for _, p := range s.programs {
			p.mayRestart(false)
			p.signal(syscall.SIGKILL)
		}
		s.running.Wait()
	})
	return s
}

func (s *fake) Name() string   { return "s0" }
func (s *fake) ID() string     { return "id" }
func (s *fake) Server() string { return "ws://fake" }
func (s *fake) Ours() bool     { return !s.peers }
func (s *fake) Cuts() int      { return 0 }

var errUnknownMethod = &protocol.Error{Code: -32601, Message: "unknown method"}

func (s *fake) Call(ctx context.Context, method string, params, result any) error {
	err := s.call(method, params, result)
	if s.answer != nil {
		return s.answer(params, err)
	}
	return err
}

func (s *fake) call(method string, params, result any) error {
	s.mu.Lock()
	lost := s.lost
	s.calls = append(s.calls, method)
	s.mu.Unlock()
	if lost {
		return ErrLost
	}
	switch v := params.(type) {
	case protocol.ProcessStartParams:
		return s.start(v)
	case protocol.ProcessSignalParams:
		n, _ := v.Signal.Number()
		if s.peers && v.Signal != protocol.SignalInterrupt {
			return errors.New("unknown variant")
		}
		p := s.program(v.ProcessID)
		switch other, _ := result.(*protocol.OtherRun); {
		case p == nil || s.mute:
		case v.Run == 0 || v.Run == uint64(p.present()):
			p.signal(n)
		case other != nil:
			other.Run = p.present()
		}
	case protocol.ProcessTerminateParams:
		if p := s.program(v.ProcessID); p != nil {
			p.mayRestart(false)
			running := p.signal(syscall.SIGKILL)
			if answer, ok := result.(*protocol.ProcessTerminateResult); ok {
				answer.Running = running
			}
		}
	case protocol.ProcessCloseStdinParams:
		if s.peers {
			return errUnknownMethod
		}
		if p := s.program(v.ProcessID); p != nil && !s.mute {
			p.closeStdin()
		}
	case protocol.ProcessSetRestartParams:
		if s.peers {
			return errUnknownMethod
		}
		if p := s.program(v.ProcessID); p != nil {
			p.mayRestart(v.Restart.Policy == protocol.RestartPermanent)
		}
	case protocol.Empty: // environment/status
	default:
		s.t.Errorf("unexpected request %s", method)
	}
	return nil
}

func (s *fake) program(id string) *fakeProgram {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.programs[id]
}

func (s *fake) start(params protocol.ProcessStartParams) error {
	if s.refuse != nil {
		return s.refuse
	}
	time.Sleep(s.slow)
	if params.Env["TROUPE_LOAD"] == "" {
		s.t.Error("the program has no TROUPE_LOAD in its environment")
	}
	p := &fakeProgram{s: s, start: params, restart: params.Restart != nil}
	s.mu.Lock()
	if s.programs[params.ProcessID] != nil {
		s.t.Errorf("the process %s was started twice", params.ProcessID)
	}
	s.programs[params.ProcessID] = p
	s.mu.Unlock()
	return p.begin()
}

// begin begins a run.
func (p *fakeProgram) begin() error {
	cmd := exec.Command(p.start.Argv[0], p.start.Argv[1:]...)
	for name, value := range p.start.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var pumps sync.WaitGroup
	pump := func(r io.Reader, s protocol.Stream) {
		pumps.Go(func() {
			buf := make([]byte, 1000)
			for {
				n, err := r.Read(buf)
				if n > 0 {
					p.emit(oracle.Event{Kind: "output", Stream: s, Data: buf[:n]})
				}
				if err != nil {
					return
				}
			}
		})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd, p.run = cmd, p.run+1
	if p.start.TTY {
		master, err := pty.Start(cmd)
		if err != nil {
			return err
		}
		p.stdin = master
		pump(master, protocol.PTY)
	} else {
		if p.start.PipeStdin {
			p.stdin, _ = cmd.StdinPipe()
		}
		stdout, _ := cmd.StdoutPipe()
		stderr, _ := cmd.StderrPipe()
		if err := cmd.Start(); err != nil {
			return err
		}
		pump(stdout, protocol.Stdout)
		pump(stderr, protocol.Stderr)
	}
	p.s.running.Go(func() {
		pumps.Wait()
		cmd.Wait()
		if f, ok := p.stdin.(*os.File); ok && p.start.TTY {
			f.Close()
		}
		status := cmd.ProcessState.Sys().(syscall.WaitStatus)
		e := oracle.Event{Kind: "exited", Code: status.ExitStatus(), Run: p.present()}
		if status.Signaled() {
			e.Code, e.Signal = 128+int(status.Signal()), protocol.SignalName(status.Signal())
		}
		if p.s.peers {
			e.Signal, e.Run = "", 0
			if status.Signaled() && p.start.TTY {
				e.Code = 1
			}
		}
		p.emit(e)
		p.mu.Lock()
		again := p.restart
		p.mu.Unlock()
		if again {
			p.emit(oracle.Event{Kind: "restarted", Run: p.present() + 1})
			if err := p.begin(); err != nil {
				p.s.t.Error(err)
			}
			return
		}
		p.mu.Lock()
		p.over = true
		p.mu.Unlock()
		p.emit(oracle.Event{Kind: "closed"})
	})
	return nil
}

// emit delivers an event.
func (p *fakeProgram) emit(e oracle.Event) {
	p.events.Lock()
	defer p.events.Unlock()
	p.seq++
	e.Seq = p.seq
	events := []oracle.Event{e}
	if p.s.change != nil {
		events = p.s.change(e)
	}
	for _, e := range events {
		p.s.mu.Lock()
		f := p.s.followers[p.start.ProcessID]
		p.s.mu.Unlock()
		if f != nil {
			f(&e, time.Now())
		}
	}
	if p.s.toObserver != nil {
		events = p.s.toObserver(e)
	}
	for _, e := range events {
		p.s.mu.Lock()
		observers := slices.Collect(maps.Values(p.s.observers))
		p.s.mu.Unlock()
		for _, o := range observers {
			o(p.start.ProcessID, &e, time.Now())
		}
	}
}

func (p *fakeProgram) present() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.run
}

func (p *fakeProgram) mayRestart(may bool) {
	p.mu.Lock()
	p.restart = may
	p.mu.Unlock()
}

func (p *fakeProgram) signal(n syscall.Signal) (running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over || p.cmd.Process == nil {
		return false
	}
	p.cmd.Process.Signal(n)
	return true
}

func (p *fakeProgram) closeStdin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.start.TTY {
		p.stdin.Write([]byte{4})
	} else {
		p.stdin.Close()
	}
}

func (s *fake) Write(process string, data []byte, done func(error)) error {
	if s.write != nil {
		return s.write(data, done)
	}
	s.mu.Lock()
	lost := s.lost
	s.mu.Unlock()
	p := s.program(process)
	if lost {
		return ErrLost
	}
	data = append([]byte(nil), data...)
	if s.spoil != nil {
		data = s.spoil(data)
	}
	p.mu.Lock()
	before, now := p.written, make(chan struct{})
	p.written = now
	stdin := p.stdin
	p.mu.Unlock()
	s.running.Go(func() {
		defer close(now)
		if before != nil {
			<-before
		}
		_, err := stdin.Write(data)
		done(err)
	})
	return nil
}

func (s *fake) Follow(process string, f func(e *oracle.Event, at time.Time)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.followers[process] = f
}

func (s *fake) Unfollow(process string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers[process] == nil {
		s.t.Errorf("Unfollow of %s, which nobody follows", process)
	}
	delete(s.followers, process)
}

func (s *fake) Observe(ctx context.Context, f func(process string, e *oracle.Event, at time.Time)) (func(), <-chan struct{}, error) {
	if s.peers {
		return nil, nil, errors.New("no observers")
	}
	if s.unseen != nil {
		return nil, nil, s.unseen
	}
	ended := make(chan struct{})
	if s.gone {
		close(ended)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.observed++
	n := s.observed
	s.observers[n] = f
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.observers, n)
	}, ended, nil
}

func (s *fake) Away(from, to time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.left.IsZero() && s.left.Before(to) && (s.back.Before(s.left) || from.Before(s.back))
}

// Leave is away for a moment, and resumes at the same place.
func (s *fake) Leave(away time.Duration) {
	s.mu.Lock()
	s.left = time.Now()
	programs := make([]*fakeProgram, 0, len(s.programs))
	for _, p := range s.programs {
		programs = append(programs, p)
	}
	s.mu.Unlock()
	s.running.Go(func() {
		for _, p := range programs {
			p.events.Lock()
			time.Sleep(away)
			s.mu.Lock()
			s.back = time.Now()
			f := s.followers[p.start.ProcessID]
			s.mu.Unlock()
			if f != nil {
				f(&oracle.Event{Kind: "resumed", Seq: p.seq}, time.Now())
			}
			p.events.Unlock()
		}
	})
}
