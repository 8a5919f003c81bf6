package client

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"slices"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/protocol"
)

var (
	// ErrLimit means: a limit of the server is reached. protocol.Error.Limit names the limit.
	ErrLimit = errors.New("client: a limit of the server is reached")
	// ErrPolicy means: the policy of the server's operator refuses the request. errors.Is(err,
	// fs.ErrPermission) is true, too.
	ErrPolicy = errors.New("client: the policy of the server refuses this")
	// ErrUnauthorized means: the server asks for a credential, and this client has none or a wrong one.
	ErrUnauthorized = errors.New("client: the credential is missing or wrong")
	// ErrAttached means: another connection owns the session. Options.Takeover takes the session.
	ErrAttached = errors.New("client: the session is attached to another connection")
	// ErrBusy means: the server has too much to do or too little memory. Try again later.
	ErrBusy = errors.New("client: the server is busy")
)

// A requestError says why a request has no result: a *protocol.Error is the server's refusal.
type requestError struct {
	method string
	why    error
}

func (e *requestError) Error() string {
	text := prefix + e.method + ": " + strings.TrimPrefix(e.why.Error(), prefix)
	if e.Is(ErrProcessGone) {
		text += "; Client.Processes lists the processes of the session"
	}
	return text
}

func (e *requestError) Unwrap() error { return e.why }

// Is compares by the kind of the refusal. The text does not count.
func (e *requestError) Is(target error) bool {
	refused, ok := e.why.(*protocol.Error)
	return ok && slices.ContainsFunc(meanings(refused), func(meaning error) bool { return errors.Is(meaning, target) })
}

// kinds has the errors of Go that a kind of the wire stands for. The package documentation has the same
// table.
var kinds = map[protocol.ErrorKind][]error{
	protocol.KindNoProgram:      {exec.ErrNotFound, fs.ErrNotExist},
	protocol.KindNotExecutable:  {syscall.ENOEXEC},
	protocol.KindNoDirectory:    {fs.ErrNotExist},
	protocol.KindNotFound:       {fs.ErrNotExist},
	protocol.KindExists:         {fs.ErrExist},
	protocol.KindNotEmpty:       {syscall.ENOTEMPTY, fs.ErrExist},
	protocol.KindNotDirectory:   {syscall.ENOTDIR},
	protocol.KindNoSpace:        {syscall.ENOSPC},
	protocol.KindReadOnly:       {syscall.EROFS},
	protocol.KindPermission:     {fs.ErrPermission},
	protocol.KindUser:           {fs.ErrPermission},
	protocol.KindRole:           {fs.ErrPermission},
	protocol.KindPolicy:         {ErrPolicy, fs.ErrPermission},
	protocol.KindUnauthorized:   {ErrUnauthorized, fs.ErrPermission},
	protocol.KindLimit:          {ErrLimit},
	protocol.KindBusy:           {ErrBusy},
	protocol.KindMethod:         {errors.ErrUnsupported},
	protocol.KindOff:            {errors.ErrUnsupported},
	protocol.KindUnsupported:    {errors.ErrUnsupported},
	protocol.KindUnknownProcess: {ErrProcessGone},
	protocol.KindUnknownSession: {ErrSessionGone},
	protocol.KindEvicted:        {ErrSessionGone},
	protocol.KindUnknownHandle:  {fs.ErrClosed},
	protocol.KindStdinClosed:    {ErrStdinClosed},
	protocol.KindAttached:       {ErrAttached},
}

// codes is for a server without kinds.
var codes = map[int][]error{
	protocol.CodeNotFound:        {fs.ErrNotExist},
	protocol.CodeMethodNotFound:  {errors.ErrUnsupported},
	protocol.CodeAlreadyAttached: {ErrAttached},
	protocol.CodeObserver:        {fs.ErrPermission},
	protocol.CodeUnauthorized:    {ErrUnauthorized, fs.ErrPermission},
}

func meanings(e *protocol.Error) []error {
	if kind := e.Kind(); kind != "" {
		return kinds[kind]
	}
	if strings.HasPrefix(e.Message, "unknown process id ") {
		return kinds[protocol.KindUnknownProcess]
	}
	return codes[e.Code]
}

// Kind returns the kind of a refusal in err: section 22.1 of docs/PROTOCOL.md lists the kinds. "": err is no
// refusal by a server that names kinds.
func Kind(err error) protocol.ErrorKind {
	if refused, ok := errors.AsType[*protocol.Error](err); ok {
		return refused.Kind()
	}
	return ""
}

// asUnauthorized adds ErrUnauthorized to an error of a dial, if the server has refused the credential.
func asUnauthorized(err error) error {
	if unauthorized(err) {
		return fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	return err
}

// prefix begins each error of this package.
const prefix = "client: "

// errorf is fmt.Errorf with prefix. Errors of this package among a lose theirs, so that a person reads it once.
func errorf(format string, a ...any) error {
	for i := range a {
		if err, is := a[i].(error); is && strings.HasPrefix(err.Error(), prefix) {
			a[i] = inner{err}
		}
	}
	return fmt.Errorf(prefix+format, a...)
}

// inner is an error of this package within another one.
type inner struct{ error }

func (e inner) Error() string { return strings.TrimPrefix(e.error.Error(), prefix) }
func (e inner) Unwrap() error { return e.error }
