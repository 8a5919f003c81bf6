package files

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"

	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// MarshalText returns the place without Visit, for another process. The names of files are bytes: they need not be UTF-8.
func (p Place) MarshalText() ([]byte, error) {
	if strings.Contains(p.Root+p.Word, "\x00") {
		return nil, fmt.Errorf("the root %q or the word %q has a NUL byte", p.Root, p.Word)
	}
	return base64.StdEncoding.AppendEncode(nil, []byte(p.Root+"\x00"+p.Word+"\x00"+p.Path)), nil
}

// UnmarshalText reads what MarshalText has returned.
func (p *Place) UnmarshalText(text []byte) error {
	packed, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return err
	}
	parts := strings.SplitN(string(packed), "\x00", 3)
	if len(parts) != 3 {
		return fmt.Errorf("%q is no place", packed)
	}
	*p = Place{Root: parts[0], Word: parts[1], Path: parts[2]}
	return nil
}

// Name is a name of a file. It need not be UTF-8.
type Name string

// MarshalText returns the bytes of the name in base64.
func (n Name) MarshalText() ([]byte, error) {
	return base64.StdEncoding.AppendEncode(nil, []byte(n)), nil
}

// UnmarshalText reads what MarshalText has returned.
func (n *Name) UnmarshalText(text []byte) error {
	name, err := base64.StdEncoding.AppendDecode(nil, text)
	*n = Name(name)
	return err
}

// Packed is an error of a call on its way to another process. Unpack returns an error with the same Kind, Text and
// advice, and with the same answers to Forbidden and to errors.Is for the errors of package fs, context and rules.
type Packed struct {
	Text    string             `json:"text,omitempty"`
	Advice  string             `json:"advice,omitempty"`  // of an Advised
	Kind    protocol.ErrorKind `json:"kind,omitempty"`    // of a Refusal and a failure
	Refused bool               `json:"refused,omitempty"` // a Refusal
	Errno   int                `json:"errno,omitempty"`   // 0: not an error of the system
	Op      string             `json:"op,omitempty"`      // before the path of an error with Errno
	Path    []byte             `json:"path,omitempty"`
	What    string             `json:"what,omitempty"` // of a rules.Refusal, with Path as its Name
	Word    string             `json:"word,omitempty"`
	Is      int                `json:"is,omitempty"` // 1 + index in sentinels; 0: none
}

// sentinels are the errors that callers look for. An error of the system needs none of them.
var sentinels = []error{fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, fs.ErrClosed, context.Canceled, context.DeadlineExceeded, os.ErrDeadlineExceeded}

// Pack packs an error that is not nil.
func Pack(err error) *Packed {
	p := &Packed{Text: err.Error()}
	if advised, ok := errors.AsType[*Advised](err); ok {
		p.Advice = advised.Advice
	}
	if r, ok := errors.AsType[*Refusal](err); ok {
		p.Refused, p.Kind, p.Text = true, r.Kind, r.Text
	} else if f, ok := errors.AsType[*failure](err); ok {
		p.Kind, p.Text = f.kind, f.text
	} else if r, ok := errors.AsType[*rules.Refusal](err); ok {
		p.What, p.Path, p.Word = r.What, []byte(r.Name), r.Word
	} else if errno, ok := errors.AsType[syscall.Errno](err); ok {
		p.Errno = int(errno)
		if of, ok := errors.AsType[*fs.PathError](err); ok {
			p.Op, p.Path = of.Op, []byte(of.Path)
		}
	} else {
		for i, sentinel := range sentinels {
			if errors.Is(err, sentinel) {
				p.Is = i + 1
			}
		}
	}
	return p
}

// Unpack returns the error.
func (p *Packed) Unpack() error {
	err := p.plain()
	if p.Advice != "" {
		return &Advised{err, p.Advice}
	}
	return err
}

func (p *Packed) plain() error {
	switch {
	case p.Refused:
		return &Refusal{p.Kind, p.Text}
	case p.What != "":
		return &rules.Refusal{What: p.What, Name: string(p.Path), Word: p.Word}
	case p.Errno != 0 && p.Op == "":
		return syscall.Errno(p.Errno)
	case p.Errno != 0:
		return &fs.PathError{Op: p.Op, Path: string(p.Path), Err: syscall.Errno(p.Errno)}
	}
	f := &failure{kind: p.Kind, text: p.Text}
	if p.Is > 0 && p.Is <= len(sentinels) {
		f.is = sentinels[p.Is-1]
	}
	return f
}
