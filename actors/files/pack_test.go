package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Whatever the server asks of an error, the answer is the same after the error has crossed a socket.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	_, missing := os.Lstat("/nowhere/at/all")
	for _, err := range []error{
		missing,
		unix.EROFS,
		&fs.PathError{Op: "open", Path: "/a\xff", Err: unix.EACCES},
		&os.LinkError{Op: "rename", Old: "/a", New: "/b", Err: unix.EBUSY},
		fmt.Errorf("around: %w", unix.EINVAL),
		unix.ENAMETOOLONG,
		Refuse(protocol.KindNotFile, "path is not a regular file"),
		Fail(protocol.KindTooLarge, "too large"),
		&Advised{Refuse(protocol.KindTooLarge, "file is too large"), "read it in blocks"},
		&Advised{&fs.PathError{Op: "open", Path: "/l", Err: unix.ELOOP}, "a link"},
		&rules.Refusal{What: "path", Name: "/b\xff", Word: rules.Write},
		fs.ErrClosed,
		fmt.Errorf("around: %w", fs.ErrExist),
		context.Canceled,
		os.ErrDeadlineExceeded,
		errors.New("another"),
	} {
		data, jsonErr := json.Marshal(Pack(err))
		var p Packed
		if jsonErr != nil || json.Unmarshal(data, &p) != nil {
			t.Fatalf("%v: %s %v", err, data, jsonErr)
		}
		got := p.Unpack()
		if Text(got) != Text(err) || Kind(got) != Kind(err) || Forbidden(got) != Forbidden(err) {
			t.Errorf("%v: %q %v, want %q %v", err, Text(got), Kind(got), Text(err), Kind(err))
		}
		for _, is := range append([]error{rules.ErrRefused, unix.EROFS, unix.EBUSY, unix.EACCES}, sentinels...) {
			if errors.Is(got, is) != errors.Is(err, is) {
				t.Errorf("%v: errors.Is(%v) is %v", err, is, errors.Is(got, is))
			}
		}
		var refused, wantRefused *Refusal
		if errors.As(got, &refused) != errors.As(err, &wantRefused) {
			t.Errorf("%v: a Refusal: %v", err, refused)
		}
		a, b := new(Advised), new(Advised)
		if errors.As(got, &a) != errors.As(err, &b) || a.Advice != b.Advice {
			t.Errorf("%v: advice %q, want %q", err, a.Advice, b.Advice)
		}
	}
}
