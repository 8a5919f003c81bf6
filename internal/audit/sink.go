package audit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/syslog"
	"net"
	"os"
)

// Open returns the sink of a flag: stderr, syslog, journald, or else the path of a file.
func Open(where string) (Sink, error) {
	switch where {
	case "stderr":
		return stream{os.Stderr, func() error { return nil }}, nil
	case "syslog":
		w, err := syslog.New(priority, "troupe")
		if err != nil {
			return nil, fmt.Errorf("audit to syslog: %w; choose a file, or start a syslog", err)
		}
		return stream{w, w.Close}, nil // log/syslog connects again after a failure
	case "journald":
		j := &journal{path: journalSocket}
		if err := j.dial(); err != nil {
			return nil, fmt.Errorf("audit to journald: %w; choose a file, or start journald", err)
		}
		return j, nil
	}
	f := &file{path: where}
	if err := f.open(); err != nil {
		return nil, fmt.Errorf("audit: %w; choose a file that the server may write", err)
	}
	return f, nil
}

// A file is a sink that appends to a file. If somebody renames or removes the file, as logrotate does, the
// next line goes to a new file.
type file struct {
	path string
	f    *os.File // nil: not open
	half []byte   // a line of which a part was written; nil: none
	rest []byte   // the part of half that is not written
}

func (s *file) open() error {
	if info, err := os.Stat(s.path); err == nil && !info.Mode().IsRegular() && info.Mode()&fs.ModeCharDevice == 0 {
		return fmt.Errorf("%s is not a regular file", s.path)
	}
	f, err := os.OpenFile(s.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	s.f, s.rest = f, s.half
	return nil
}

// follow opens the file again, if another file or none has the path.
func (s *file) follow() error {
	if s.f == nil {
		return s.open()
	}
	mine, err := s.f.Stat()
	if err != nil {
		return err
	}
	if at, err := os.Stat(s.path); err == nil && os.SameFile(mine, at) {
		return nil
	}
	old := s.f
	if err := s.open(); err != nil {
		return err
	}
	return save(old)
}

func (s *file) Write(line []byte) error {
	if err := s.follow(); err != nil {
		return err
	}
	if s.half != nil {
		n, err := s.f.Write(s.rest)
		if s.rest = s.rest[n:]; err != nil {
			return err
		}
		s.half = nil
	}
	n, err := s.f.Write(line)
	if err != nil && n > 0 {
		s.half, s.rest = line, line[n:]
		return keptError{err}
	}
	return err
}

func (s *file) Close() error {
	if s.f == nil {
		return nil
	}
	if s.half != nil {
		s.f.Write(s.rest) // the next program that appends begins a line
	}
	return save(s.f)
}

// save has the disk keep all of f, and closes f.
func save(f *os.File) error {
	err := f.Sync()
	if info, stat := f.Stat(); stat == nil && !info.Mode().IsRegular() {
		err = nil // a device cannot sync
	}
	return errors.Join(err, f.Close())
}

// A stream is a sink that another writer takes: stderr, or syslog(3).
type stream struct {
	io.Writer
	close func() error
}

func (s stream) Write(line []byte) error {
	_, err := s.Writer.Write(line)
	return err
}

func (s stream) Close() error { return s.close() }

// priority is the priority of lines in syslog.
const priority = syslog.LOG_AUTHPRIV | syslog.LOG_INFO

// journalSocket is where journald takes entries. Source: systemd, "Native Journal Protocol".
const journalSocket = "/run/systemd/journal/socket"

// A journal is a sink that journald takes.
type journal struct {
	path string
	conn net.Conn // nil: not connected
}

func (j *journal) dial() (err error) {
	j.conn, err = net.Dial("unixgram", j.path)
	return err
}

func (j *journal) Write(line []byte) (err error) {
	entry := append([]byte("SYSLOG_IDENTIFIER=troupe\nPRIORITY=6\nMESSAGE="), bytes.TrimSuffix(line, []byte{'\n'})...)
	entry = append(entry, '\n')
	for range 2 { // journald may have been restarted
		if j.conn == nil {
			if err = j.dial(); err != nil {
				return err
			}
		}
		if _, err = j.conn.Write(entry); err == nil {
			return nil
		}
		j.conn.Close()
		j.conn = nil
	}
	return err
}

func (j *journal) Close() error {
	if j.conn == nil {
		return nil
	}
	return j.conn.Close()
}
