package files

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A Call is one call about files: what is done, where, and how. A call may take as long as its disk does. A call whose context is
// done may return early with an error; a call that waits for a disk may also finish.
type Call struct {
	Op   Op    `json:"op"`
	At   Place `json:"at"`
	From Place `json:"from,omitzero"` // of OpCopy and OpRename
	// NoLinks means that no component of At.Path may be a link, unless the path is a root. OpOpen, OpStat, OpCreateDirectory
	// and OpRemove obey NoLinks, and the other calls are refused with it.
	NoLinks      bool                    `json:"noLinks,omitempty"`
	Recursive    bool                    `json:"recursive,omitempty"`
	Force        bool                    `json:"force,omitempty"`
	Follow       bool                    `json:"follow,omitempty"`
	Mode         protocol.FsMode         `json:"mode,omitempty"` // of OpOpen; "" means FsRead
	Walk         *protocol.FsWalkOptions `json:"walk,omitempty"`
	Target       Name                    `json:"target,omitempty"`
	Bits         *uint64                 `json:"bits,omitempty"`
	ModifiedAtMs *int64                  `json:"modifiedAtMs,omitempty"`
	// Hold is asked for the memory of the result.
	Hold Hold `json:"-"`
}

// Changes reports whether the call may change files.
func (c Call) Changes() bool { return c.Op.changes || c.Mode.Writes() }

// ChangesFrom reports whether the call may change the file From.
func (c Call) ChangesFrom() bool { return c.Op.takes != "" }

// A Caller makes calls: Do in this process, those of package remote in a sandbox or as another user. Any goroutine may use it.
type Caller func(ctx context.Context, c Call) (Result, error)

// Result is what a call brings.
type Result struct {
	Value any    // for the client; nil of OpOpen
	File  Opened // of OpOpen; nil of others
	Size  int64  // of a file opened for reading, in bytes, when it was opened; 0 of many files of /proc
}

// Do makes a call in this process.
func Do(ctx context.Context, c Call) (r Result, err error) {
	switch {
	case c.Op.op == nil:
		return r, errors.New("the call does nothing")
	case c.NoLinks && !c.Op.direct:
		return r, fmt.Errorf("the call %s follows links", c.Op.name)
	}
	if c.At.Path == c.At.Root && c.At.Root != "/" {
		c.NoLinks = false // links in a root belong to the operator
	}
	if c.Op.takes != "" && !c.NoLinks {
		if err := cmp.Or(c.From.keep(c.Op.takes), c.At.keep(c.Op.takes)); err != nil {
			return r, err
		}
	}
	first := c.At
	if c.From.Path != "" {
		first = c.From
	}
	v, err := first.View()
	if err != nil {
		return r, err
	}
	defer v.Close()
	// No link leads on from the root, so a path that begins with the root is below it. A missing root is an error: no call
	// makes it.
	v.noLinks = c.NoLinks
	return c.Op.do(ctx, v, c)
}

// keep refuses to take a root away. taken says what the call would do, in the participle.
func (p Place) keep(taken string) error {
	if p.Path != "" && (p.Path == p.Root || p.Path == "/") {
		return Refuse(protocol.KindPolicy, "path `%s` is not %s", p.Path, taken)
	}
	return nil
}

// An Op is what a call does. The variables below are all there are.
type Op struct{ *op }

type op struct {
	name    string
	changes bool
	direct  bool   // the call obeys NoLinks
	takes   string // the call takes its places away: what it does to them, in the participle
	do      func(context.Context, View, Call) (Result, error)
	decode  func([]byte) (any, error) // nil: there is no value
}

// ops has every Op by name.
var ops = make(map[string]*op)

// The table of calls. The View of a function is that of At, and of a call that moves that of From.
var (
	OpOpen          = add(op{name: "open", direct: true, do: open})
	OpStat          = looks(op{name: "stat", direct: true}, stat)
	OpCanonicalize  = looks(op{name: "canonicalize"}, canonicalize)
	OpReadDirectory = looks(op{name: "readDirectory"}, readDirectory)
	OpWalk          = looks(op{name: "walk"}, walkTree)
	OpEntry         = looks(op{name: "entry"}, entry)
	OpList          = looks(op{name: "list"}, list)

	OpCreateDirectory = changes(op{name: "createDirectory", direct: true}, createDirectory)
	OpRemove          = changes(op{name: "remove", direct: true, takes: "removed"}, remove)
	OpCopy            = changes(op{name: "copy"}, copyFiles)
	OpRename          = changes(op{name: "rename", takes: "renamed"}, rename)
	OpSymlink         = changes(op{name: "symlink"}, symlink)
	OpSetMetadata     = changes(op{name: "setMetadata"}, setMetadata)
)

func add(o op) Op {
	ops[o.name] = &o
	return Op{&o}
}

// looks returns the Op of a function that changes nothing, and whose value is for the client.
func looks[R any](o op, do func(context.Context, View, Call) (R, error)) Op {
	o.do = func(ctx context.Context, v View, c Call) (Result, error) {
		value, err := do(ctx, v, c)
		return Result{Value: value}, err
	}
	o.decode = func(data []byte) (any, error) {
		var value R
		err := json.Unmarshal(data, &value)
		return value, err
	}
	return add(o)
}

// changes returns the Op of a function that may change files.
func changes(o op, do func(context.Context, View, Call) error) Op {
	o.changes = true
	o.do = func(ctx context.Context, v View, c Call) (Result, error) {
		return Result{Value: protocol.Empty{}}, do(ctx, v, c)
	}
	return add(o)
}

// MarshalText returns the name of the Op.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.name), nil }

// UnmarshalText finds the Op with a name.
func (o *Op) UnmarshalText(name []byte) error {
	if o.op = ops[string(name)]; o.op == nil {
		return fmt.Errorf("there is no call %q", name)
	}
	return nil
}

// Encode returns the result of a call on its way to another process; nil if there is no value.
func (o Op) Encode(r Result) ([]byte, error) {
	if o.decode == nil {
		return nil, nil
	}
	return json.Marshal(r.Value)
}

// Decode returns the result that Encode has encoded.
func (o Op) Decode(data []byte) (r Result, err error) {
	if o.decode == nil {
		return Result{Value: protocol.Empty{}}, nil
	}
	r.Value, err = o.decode(data)
	return r, err
}

// Opened is an open file. Its owner ends it, once, with Commit or Discard.
type Opened interface {
	io.ReaderAt
	io.WriterAt
	// Commit closes the file. A file opened with FsReplace gets the place of the old file; if Commit fails, no trace of the new
	// file remains. If ctx ends first, the new file may have its place, or get it later.
	Commit(ctx context.Context) error
	// Discard closes the file, and removes every trace of a file opened with FsReplace.
	Discard()
	// Here returns the file of this process. Nil: another process holds the file.
	Here() *os.File
}

// Local is an open file of this process that has its place.
type Local struct{ *os.File }

// Commit closes the file.
func (l Local) Commit(context.Context) error { return l.Close() }

// Discard closes the file.
func (l Local) Discard() { l.Close() }

// Here returns the file.
func (l Local) Here() *os.File { return l.File }

// ReadFile returns the content of a regular file, which it opens by a call c. A file of more than max bytes is refused.
func ReadFile(ctx context.Context, by Caller, c Call, max int) ([]byte, error) {
	c.Op, c.Mode = OpOpen, protocol.FsRead
	r, err := by(ctx, c)
	if err != nil {
		return nil, err
	}
	defer r.File.Discard()
	var from io.Reader = io.NewSectionReader(r.File, 0, math.MaxInt64)
	if f := r.File.Here(); f != nil { // some files of /proc can only be read from the beginning on
		from = f
	}
	return readAll(from, r.Size, c.At.Path, max, c.Hold)
}

// WriteFile replaces the content of a file by data, and opens the file by a call c. Readers see either the old content or the new
// content. If WriteFile fails, the old content stays. If ctx ends first, the new content may be there, or come later.
func WriteFile(ctx context.Context, by Caller, c Call, data []byte) error {
	c.Op, c.Mode = OpOpen, protocol.FsReplace
	r, err := by(ctx, c)
	if err != nil {
		return err
	}
	if _, err := r.File.WriteAt(data, 0); err != nil {
		r.File.Discard()
		return err
	}
	return r.File.Commit(ctx)
}
