// Package holder has the process of `troupe serve` outside of the server, and outlives each server: a holder keeps the descriptors of the
// programs, is the parent of the programs, and starts the next server when the last has died.
//
// A holder decides nothing, never looks at output, has no options, and reaps a program only on request. The server decides: a server
// forks its programs as children of the holder (CLONE_PARENT of clone(2)), and asks the holder to keep descriptors. So a server may be
// killed at any instant. Its programs go on. Programs without a server end as zombies and keep their exit status. The next server gets
// all descriptors before its first request.
//
//   - kept.go: what a holder keeps
//   - wire_linux.go: the messages between holder and server
//   - probe_linux.go: whether the system has what a holder and its servers need
//   - holder_linux.go: the holder
//   - upgrade_linux.go: a server of another binary
//   - takeover_linux.go: a holder becomes another binary
//   - watch_linux.go: a server that hangs
//   - notify_linux.go: what the service manager hears
//   - server_linux.go: the server's side
//
// # Messages
//
// Holder and server speak over a socket with separate messages (SOCK_SEQPACKET of unix(7)). The descriptors of a message come with the
// message. The messages of a dead server arrive. The holder does not wait for messages: it waits for its bell, an eventfd that the server rings, and
// then reads all of them.
//
//	holder → server  Hello   the version of the messages, the number of the server, how and when the last server ended; with the bell
//	                 Kept    an id with its pid, its note, its descriptors and, after Reap, its end; several for an id with many
//	                 Ready   the last of these
//	                 Reaped  the answer to Reap and Look
//	                 Signal  the holder has got this signal
//	                 Refused there is no upgrade, and why
//	                 Ask     does the server work?
//	server → holder  Keep    keep these descriptors, and this note unless it is empty, under this id
//	                 Drop    close these descriptors of this id
//	                 Born    the program of this id has this pid
//	                 Reap    wait for this id, or for this pid of an orphan, without blocking
//	                 Look    as Reap, but the program stays a zombie
//	                 Forget  close everything of this id
//	                 Up      the server serves
//	                 Alive   the answer to Ask, after a round trip through the actors
//	                 Stop    when the server has ended, kill all programs, and end with the status of the server
package holder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/nonblock"
)

// Version is the version of the messages. Holder and server compare their versions before anything else.
const Version = 3

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages: see the comment of the package.
const (
	Hello Kind = iota + 1
	Kept
	Ready
	Reaped
	Keep
	Drop
	Born
	Reap
	Look
	Forget
	Up
	Stop
	Signal
	Ask
	Alive
	Refused
	last
)

const (
	// MaxFiles is how many descriptors a message has at most. The kernel allows 253 (SCM_MAX_FD of unix(7)).
	MaxFiles = 250
	// maxMessage bounds a message, in bytes.
	maxMessage = 64 << 10
)

// Message is a message. The fields without a meaning for its kind are zero.
type Message struct {
	Kind   Kind
	Number uint64 // of Hello: the version; of Signal: its number
	ID     string
	PID    int // of Hello: the number of the server, from 1
	End    End
	Names  []string // of descriptors
	Text   string   // of Hello: how the last server ended; "": there was none. Of Keep and Kept: the note. Of Refused: why
	Time   int64    // of Hello: when the last server ended, in nanoseconds of CLOCK_BOOTTIME

	files []int // as many as Names, of Hello, Keep and Kept
}

// one is what is written to an eventfd.
var one = [8]byte{1} // little endian, or any other number above 0

// encode returns the bytes of a message.
func (m *Message) encode() []byte {
	b := []byte{byte(m.Kind)}
	b = binary.AppendUvarint(b, m.Number)
	b = appendText(b, m.ID)
	b = binary.AppendVarint(b, int64(m.PID))
	if b = append(b, 0); m.End.Ended {
		b[len(b)-1] = 1
	}
	for _, n := range []int64{int64(m.End.Status), m.End.User, m.End.System, m.End.MaxRSS} {
		b = binary.AppendVarint(b, n)
	}
	b = binary.AppendUvarint(b, uint64(len(m.Names)))
	for _, name := range m.Names {
		b = appendText(b, name)
	}
	return binary.AppendVarint(appendText(b, m.Text), m.Time)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// decode returns the message of bytes. A later version of the messages may have more at the end.
func decode(b []byte) (m Message, err error) {
	r := reader{b: b}
	m.Kind = Kind(r.byte())
	m.Number = r.uvarint()
	m.ID = r.text()
	m.PID = int(r.varint())
	m.End.Ended = r.byte() != 0
	m.End.Status = syscall.WaitStatus(r.varint())
	m.End.User, m.End.System, m.End.MaxRSS = r.varint(), r.varint(), r.varint()
	for n := r.uvarint(); n > 0 && !r.short; n-- {
		m.Names = append(m.Names, r.text())
	}
	m.Text = r.text()
	m.Time = r.varint()
	if r.short || m.Kind == 0 || m.Kind >= last {
		return Message{}, fmt.Errorf("holder: a message of %d bytes that is none, its kind is %d", len(b), m.Kind)
	}
	return m, nil
}

type reader struct {
	b     []byte
	short bool // something was missing
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.short = true
		return 0
	}
	c := r.b[0]
	r.b = r.b[1:]
	return c
}

func (r *reader) uvarint() uint64 { return number(r, binary.Uvarint) }

func (r *reader) varint() int64 { return number(r, binary.Varint) }

func number[N int64 | uint64](r *reader, decode func([]byte) (N, int)) N {
	n, size := decode(r.b)
	if size <= 0 {
		r.short, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) text() string {
	n := r.uvarint()
	if n > uint64(len(r.b)) {
		r.short, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}

// send sends a message with its descriptors, which stay open here. Without room in the socket the error is EAGAIN: send does not wait. After
// ETOOMANYREFS the other side has to read first: as many descriptors are under way as RLIMIT_NOFILE allows.
func send(socket int, m *Message) error {
	b := m.encode()
	if len(b) > maxMessage || len(m.files) > MaxFiles {
		return fmt.Errorf("holder: a message of %d bytes and %d descriptors, the limits are %d and %d", len(b), len(m.files), maxMessage, MaxFiles)
	}
	var rights []byte
	if len(m.files) > 0 {
		rights = unix.UnixRights(m.files...)
	}
	if err := nonblock.Sendmsg(uintptr(socket), b, rights); err != nil {
		return fmt.Errorf("holder: send: %w", err)
	}
	return nil
}

// errEnd means: the other side has ended.
var errEnd = errors.New("holder: the other side has ended")

// newBuffer returns a buffer for receive.
func newBuffer() []byte { return make([]byte, maxMessage+unix.CmsgSpace(MaxFiles*4)) }

// receive returns the next message, with its descriptors, all closed on exec. buf is of newBuffer. Without a message err is EAGAIN: receive does
// not wait. At the end of the other side err is errEnd.
func receive(socket int, buf []byte) (Message, error) {
	buf, rights := buf[:maxMessage], buf[maxMessage:]
	for reset := false; ; {
		n, size, flags, err := nonblock.Recvmsg(uintptr(socket), buf, rights)
		switch {
		case err == unix.EAGAIN:
			return Message{}, err
		case err == unix.ECONNRESET && !reset:
			reset = true // the other side has ended without reading all; its own messages follow
			continue
		case err == unix.ECONNRESET || err == nil && n == 0:
			return Message{}, errEnd
		case err != nil:
			return Message{}, fmt.Errorf("holder: receive: %w", err)
		}
		files, err := filesOf(rights[:size])
		m := Message{}
		if err == nil {
			m, err = decode(buf[:n])
		}
		switch {
		case err != nil:
		case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
			err = fmt.Errorf("holder: a message of more than %d bytes, or with more descriptors than there is room for", len(buf))
		case m.Kind != Drop && len(files) != len(m.Names):
			err = fmt.Errorf("holder: a message with %d descriptors and %d names", len(files), len(m.Names))
		}
		if err != nil {
			closeAll(files)
			return Message{}, err
		}
		m.files = files
		return m, nil
	}
}

// filesOf returns the descriptors of control messages.
func filesOf(b []byte) (files []int, err error) {
	if len(b) == 0 {
		return nil, nil
	}
	all, err := unix.ParseSocketControlMessage(b)
	if err != nil {
		return nil, fmt.Errorf("holder: %w", err)
	}
	for i := range all {
		more, err := unix.ParseUnixRights(&all[i])
		if err != nil {
			continue // other than descriptors
		}
		files = append(files, more...)
	}
	return files, nil
}

func closeAll(files []int) {
	for _, fd := range files {
		unix.Close(fd)
	}
}

// boottime returns the time of a clock that all processes share and nobody sets.
func boottime() int64 {
	var now unix.Timespec
	unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // fails for no known clock
	return now.Nano()
}

// clip bounds a text of the system in a message.
func clip(s string) string { return s[:min(len(s), math.MaxInt8)] }
