package files

import (
	"errors"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/beneath"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// kinds has the kind of each error of the system. The order matters: ENOTEMPTY is also fs.ErrExist.
var kinds = []struct {
	err  error
	kind protocol.ErrorKind
}{
	{rules.ErrRefused, protocol.KindPolicy},
	{beneath.ErrOutside, protocol.KindPolicy},
	{unix.ENOTEMPTY, protocol.KindNotEmpty},
	{fs.ErrClosed, protocol.KindEnded},
	{fs.ErrExist, protocol.KindExists},
	{fs.ErrNotExist, protocol.KindNotFound},
	{unix.ENAMETOOLONG, protocol.KindNotFound},
	{unix.EROFS, protocol.KindReadOnly},
	{fs.ErrPermission, protocol.KindPermission},
	{unix.ENOTDIR, protocol.KindNotDirectory},
	{unix.EISDIR, protocol.KindNotFile},
	{unix.ELOOP, protocol.KindLink},
	{unix.ENOSPC, protocol.KindNoSpace},
	{unix.EDQUOT, protocol.KindNoSpace},
	{unix.EFBIG, protocol.KindTooLarge},
	{unix.EINVAL, protocol.KindParams},
	{unix.EOPNOTSUPP, protocol.KindUnsupported},
	{unix.ENOSYS, protocol.KindUnsupported},
	{unix.EMFILE, protocol.KindBusy},
	{unix.ENFILE, protocol.KindBusy},
	{unix.ENOMEM, protocol.KindBusy},
}

// Kind returns the kind of an error of this package.
func Kind(err error) protocol.ErrorKind {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.Kind
	}
	if f, ok := errors.AsType[*failure](err); ok && f.kind != "" {
		return f.kind
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.kind
		}
	}
	return protocol.KindSystem
}
