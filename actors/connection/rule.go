package connection

import (
	"context"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file holds calls about files to the rule of their client. A method gets a path only through toRead and
// toWrite, and says so by setting call.ruled. Under a policy, a call without ruled does not run: so a new method
// that forgets the policy is refused.

// mayRun returns nil if the call looks at the rule itself, or if the client may use all files that the call may
// need.
func (call *fileCall) mayRun() error {
	if call.rule == nil || call.ruled {
		return nil
	}
	root, word := call.rule.WriteRoot, rules.Write
	if call.readsAll {
		root, word = call.rule.ReadRoot, rules.Read
	}
	if all, _ := root("/"); all != "/" {
		return &rules.Refusal{What: "method", Name: call.in.method, Word: word + " /"}
	}
	return nil
}

// byUser refuses a call that is made as a user other than the server's, but that only the server itself could make.
func (call *fileCall) byUser() *protocol.Error {
	if call.user == "" || call.serves {
		return nil
	}
	return protocol.Errorf(protocol.KindPolicy, protocol.CodeInvalidRequest, "%s works only as this server's own user, and by its --users-file you are user %q here", call.in.method, wireerr.Clip(call.user)).
		Advise("read with fs/readFile and the like, or start a program, which runs as that user")
}

// toRead returns the place of a path that the call reads. Only call.do may call toRead: the rule is known then.
func (call *fileCall) toRead(path string) (files.Place, error) {
	if call.rule == nil {
		return files.Place{Path: path, Visit: call.visit}, nil
	}
	root, ok := call.rule.ReadRoot(path)
	return call.placeIn(root, ok, path, rules.Read)
}

// toWrite is toRead for a path that the call may change.
func (call *fileCall) toWrite(path string) (files.Place, error) {
	if call.rule == nil {
		return files.Place{Path: path, Visit: call.visit}, nil
	}
	root, ok := call.rule.WriteRoot(path)
	return call.placeIn(root, ok, path, rules.Write)
}

func (call *fileCall) placeIn(root string, ok bool, path, word string) (files.Place, error) {
	if !ok {
		return files.Place{}, &rules.Refusal{What: "path", Name: path, Word: word}
	}
	return files.Place{Path: path, Root: root, Word: word, Visit: call.visit}, nil
}

// visit enters the filesystem to which a path leads, unless it answers by itself. A call as a user waits in a process of the user,
// where the path leads as far as the user may go.
func (call *fileCall) visit(path string, follow bool) error {
	if call.user != "" {
		return nil
	}
	if filesystem := mounts.Find(path, follow); filesystem != "" {
		return call.enter(filesystem)
	}
	return nil
}

// fileLook and fileWork do a call about the file at a place. A fileLook has no call that changes it.
type (
	fileLook func(ctx context.Context, on files.Looks, at files.Place) (any, error)
	fileWork func(ctx context.Context, on files.Calls, at files.Place) (any, error)
)

// reads makes call a call that reads the file at a URI. do gets its place.
func (call *fileCall) reads(uri string, do fileLook) error {
	path, err := pathOf(uri)
	call.at(path, false, call.toRead, func(ctx context.Context, on files.Calls, at files.Place) (any, error) { return do(ctx, on, at) })
	return err
}

// writes makes call a call that may change the file at a URI, and is recorded. do gets its place.
func (call *fileCall) writes(uri string, do fileWork) error {
	path, err := pathOf(uri)
	call.change = &audit.FileChange{Path: audit.Text(path)}
	call.at(path, true, call.toWrite, do)
	return err
}

// moves is writes for a call that takes what it writes from a path.
func (call *fileCall) moves(from, uri string, do fileWork) error {
	err := call.writes(uri, do)
	call.change.From = audit.Text(from)
	return err
}

func (call *fileCall) at(path string, writes bool, to func(path string) (files.Place, error), do fileWork) {
	call.ruled, call.serves = true, true
	call.do = func(ctx context.Context) (any, error) {
		place, err := to(path)
		if err != nil {
			return nil, err
		}
		on, err := call.on(ctx, writes)
		if err != nil {
			return nil, err
		}
		return do(ctx, on, place)
	}
}

// allToRead returns the places of URIs that the call reads.
func (call *fileCall) allToRead(uris []string) (places []files.Place, err error) {
	for _, uri := range uris {
		path, err := pathOf(uri)
		if err != nil {
			return nil, err
		}
		place, err := call.toRead(path)
		if err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	return places, nil
}
