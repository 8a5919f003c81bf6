package child

import (
	"syscall"

	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Adopt takes over the child with a name that an earlier program has left at the holder. Everything of the child that nobody has read reaches in.
// rate is as Spec.StdinRate. The Handle is nil if there is no such child.
func (h *Host) Adopt(name string, in *Intake, rate *pace.Meter) Handle {
	f := h.takeFound(name)
	if f == nil {
		return nil
	}
	p := h.adopt(f.Born, f.tree, in, rate)
	p.watch()
	return p
}

// lost is a child that an earlier program has started, and that nobody has any more.
type lost struct{ containment Containment }

// lostStatus is how a lost child has ended, as far as anybody knows.
var lostStatus = protocol.ExitStatus{ExitCode: 128 + int(syscall.SIGKILL), Signal: "SIGKILL"}

// Lost returns the Handle of a child that an earlier program has started, and that nobody has any more. The intake gets its end.
func (h *Host) Lost(in *Intake) Handle {
	in.Exited(lostStatus)
	in.Closed()
	return lost{h.Containment()}
}

func (l lost) PID() int                                    { return 0 }
func (l lost) Containment() Containment                    { return l.containment }
func (l lost) Sandbox() (name, level string)               { return "", "" }
func (l lost) Write([]byte) (int, error)                   { return 0, ErrStdinClosed }
func (l lost) WriteAs([16]byte, []byte) (int, error)       { return 0, ErrStdinClosed }
func (l lost) CloseStdin() error                           { return nil }
func (l lost) Resize(protocol.Size) error                  { return nil }
func (l lost) Signal(syscall.Signal) error                 { return nil }
func (l lost) Kill() error                                 { return nil }
func (l lost) KillTree(done func(error))                   { go done(nil) }
func (l lost) Abandon()                                    {}
func (l lost) StdinUnread() int64                          { return 0 }
func (l lost) Status() (protocol.ExitStatus, bool)         { return lostStatus, true }
func (l lost) Exited() bool                                { return true }
func (l lost) Stopped() bool                               { return false }
func (l lost) Usage(_ bool, done func(*protocol.Usage))    { go done(nil) }
func (l lost) TreeEmpty() bool                             { return true }
func (l lost) SearchTree(done func(empty bool, err error)) { go done(true, nil) }
func (l lost) Release() error                              { return nil }
func (l lost) Finish(done func(error))                     { go done(nil) }
