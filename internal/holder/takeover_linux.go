package holder

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// A binary with another version of the messages can serve under a holder of its own only. For such a binary the holder replaces its own program at the
// switch of an upgrade: by execve(2), so it stays the same process, the parent of its programs, with their descriptors. No server runs meanwhile. If
// the new server dies in its probation, the holder becomes the old binary in the same way.
//
// The state is in a memfd: Hello and Kept as for a server, each with the numbers of its descriptors behind it. So Hello and Kept have to stay as they are in
// all versions from Oldest on.

const (
	// Anew is the exit code of a trial of a binary that can serve under a holder of its own only.
	Anew = 75
	// Oldest is the oldest version whose holder can become this binary.
	Oldest = 2
	// taken begins the variable of a holder that was another binary before. The descriptor of the state follows.
	taken = "state:"
	// nameBefore is the name of the descriptor of the binary from before.
	nameBefore = "before"
)

// holderSignals are the signals that a holder catches.
var holderSignals = []os.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// State returns the descriptor of the state, for Config.State, if this process was a holder of another binary before; else 0. A process calls State once, before
// Socket.
func State() int {
	text, ok := strings.CutPrefix(os.Getenv(variable), taken)
	if !ok {
		return 0
	}
	os.Unsetenv(variable)
	fd, _ := strconv.Atoi(text)
	return fd
}

// become replaces the program of this process by the image. It returns after a failure only, and then nothing has changed.
func (h *holder) become() error {
	failed := func(err error) error { return fmt.Errorf("holder: become %s: %w", h.image.path, err) }
	hello := Message{Kind: Hello, Number: Version, ID: h.Next, PID: int(h.number), Text: clip(h.last), Time: h.ended}
	if before := h.upgrade.before; before != nil {
		fd, err := unix.Open(before.path, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return failed(err)
		}
		defer unix.Close(fd)
		hello.Names, hello.files = []string{nameBefore}, []int{fd}
	}
	var b []byte
	var files []int
	for _, m := range append([]Message{hello}, h.kept()...) {
		b = appendText(b, string(m.encode()))
		for _, fd := range m.files {
			b = binary.AppendUvarint(b, uint64(fd))
		}
		files = append(files, m.files...)
	}
	fd, err := unix.MemfdCreate("troupe-holder", unix.MFD_CLOEXEC)
	if err != nil {
		return failed(err)
	}
	state := os.NewFile(uintptr(fd), "state")
	defer state.Close()
	if _, err := state.Write(b); err != nil {
		return failed(err)
	}
	// A signal of this moment stays pending until the next program has its handlers, and does not end it.
	block, mask := signalSet(), unix.Sigset_t{}
	unix.PthreadSigmask(unix.SIG_BLOCK, &block, &mask)
	defer unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil)
	var limit unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &limit)
	files = append(files, fd)
	for _, fd := range files {
		unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0)
	}
	err = syscall.Exec(h.image.path, h.Self, append(h.env(taken+strconv.Itoa(fd)), h.Manager.Environ()...))
	for _, fd := range files {
		unix.CloseOnExec(fd)
	}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) // Exec has set the limit from before Go has raised it
	return failed(err)
}

// signalSet has the signals that a holder catches.
func signalSet() (set unix.Sigset_t) {
	for _, s := range holderSignals {
		set.Val[0] |= 1 << (s.(syscall.Signal) - 1)
	}
	return set
}

// restore takes the state that become has left. The first server starts with the first turn.
func (h *holder) restore(fd int) error {
	state := os.NewFile(uintptr(fd), "state")
	defer state.Close()
	b, err := io.ReadAll(io.NewSectionReader(state, 0, 1<<62))
	if err != nil {
		return fmt.Errorf("holder: read the state: %w", err)
	}
	for r := (reader{b: b}); len(r.b) > 0; {
		m, err := decode([]byte(r.text()))
		for range m.Names {
			m.files = append(m.files, int(r.uvarint()))
		}
		if err != nil || r.short {
			return fmt.Errorf("holder: the state of %d bytes ends too early, or has something else than messages: %w", len(b), cmp.Or(err, io.ErrUnexpectedEOF))
		}
		for _, fd := range m.files {
			unix.CloseOnExec(fd)
		}
		if m.Kind == Hello {
			h.number, h.last, h.ended, h.Next, h.up = uint64(m.PID), m.Text, m.Time, m.ID, true
			if i := slices.Index(m.Names, nameBefore); i >= 0 {
				h.upgrade.before = &image{fmt.Sprint("/proc/self/fd/", m.files[i]), m.files[i], true}
			}
			continue
		}
		m.Kind = Keep
		h.do(m)
		k := h.kids[m.ID]
		if k.pid = m.PID; m.End.Ended {
			k.end = new(m.End)
		}
	}
	if !h.up {
		return errors.New("holder: the state is empty")
	}
	return nil
}
