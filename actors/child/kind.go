package child

import (
	"errors"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// kinds has the kind of each error. The order matters: a directory that may not be searched is ErrDir and
// ErrPermission, and its kind is that of ErrPermission.
var kinds = []struct {
	err  error
	kind protocol.ErrorKind
}{
	{errInternal, protocol.KindInternal},
	{rules.ErrRefused, protocol.KindPolicy},
	{ErrClosed, protocol.KindEnded},
	{ErrNoAnswer, protocol.KindHangs},
	{ErrSurvivors, protocol.KindSurvivors},
	{ErrSandbox, protocol.KindSandbox},
	{ErrSandboxPolicy, protocol.KindSandbox},
	{ErrLimitRefused, protocol.KindUnsupported},
	{ErrLimit, protocol.KindLimit},
	{ErrUser, protocol.KindUser},
	{ErrArgument, protocol.KindParams},
	{ErrPermission, protocol.KindPermission},
	{ErrExecFormat, protocol.KindNotExecutable},
	{ErrDir, protocol.KindNoDirectory},
	{ErrNoProgram, protocol.KindNoProgram},
}

// Kind returns the kind of an error of a start or of a Handle.
func Kind(err error) protocol.ErrorKind {
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return protocol.KindSystem
}
