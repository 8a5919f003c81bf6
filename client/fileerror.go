package client

import (
	"errors"
	"io/fs"
	"regexp"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

// ErrFileChanged means: the connection was cut while a file was read, and the file on the server is another one
// now, or has another size or time. The rest would not fit to the part read before. Read the file again.
var ErrFileChanged = errors.New("the file changed while the connection was cut: read it again")

// errOldLink is the error of a call about a connection that has ended.
var errOldLink = errors.New("client: the connection was cut")

// A fileError is the server's refusal of a call about a file. errors.Is finds the error of the operating system,
// and so fs.ErrNotExist, fs.ErrPermission and fs.ErrExist; errors.As finds the *protocol.Error.
type fileError struct {
	refused *protocol.Error
	cause   error         // wraps refused
	errno   syscall.Errno // 0: unknown
}

func (e *fileError) Error() string {
	text, _, _ := strings.Cut(e.refused.Message, " (os error ")
	if advice := e.refused.Advice(); advice != "" {
		text += ": " + advice
	}
	return text
}

func (e *fileError) Unwrap() []error {
	if e.errno == 0 {
		return []error{e.cause}
	}
	return []error{e.cause, e.errno}
}

// sameErrnos are errors that have the same number on every Unix, and so in the text of every server.
var sameErrnos = map[string]syscall.Errno{
	"1": syscall.EPERM, "2": syscall.ENOENT, "13": syscall.EACCES, "17": syscall.EEXIST, "18": syscall.EXDEV, "20": syscall.ENOTDIR,
	"21": syscall.EISDIR, "22": syscall.EINVAL, "27": syscall.EFBIG, "28": syscall.ENOSPC, "30": syscall.EROFS,
}

var osError = regexp.MustCompile(`\(os error (\d+)\)$`)

// errnoOf returns the error of the operating system in a refusal; 0: none is known.
func errnoOf(refused *protocol.Error) syscall.Errno {
	if m := osError.FindStringSubmatch(refused.Message); m != nil {
		return sameErrnos[m[1]]
	}
	return 0
}

// pathError returns err as an *fs.PathError; nil if err is nil.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	if refused, ok := errors.AsType[*protocol.Error](err); ok {
		err = &fileError{refused, err, errnoOf(refused)}
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}
