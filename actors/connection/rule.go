package connection

import (
	"context"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/mounts"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file holds calls about files to the rule of their client. A method gets a path only through place,
// and says so by setting call.ruled. Under a policy, a call without ruled does not run: so a new method
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

// asFor notes as whom, and under which rule, the call is made for a client. asFor refuses a call that is made as a user other than the
// server's, but that only the server itself could make.
func (call *fileCall) asFor(e *env.Env, who string) (err *protocol.Error) {
	if call.user, err = e.FileUser(who); err != nil {
		return err
	}
	if call.rule = e.Rules.Of(who); call.rule != nil {
		call.required, call.byDefault = call.rule.MustConfine(), call.rule.Sandbox() != nil
	}
	call.required, call.byDefault = call.required || e.RequireSandbox, call.byDefault || e.DefaultSandbox != nil
	if call.user == "" || call.serves {
		return nil
	}
	return protocol.Errorf(protocol.KindPolicy, protocol.CodeInvalidRequest, "%s works only as this server's own user, and by its --users-file you are user %q here", call.in.method, wireerr.Clip(call.user)).
		Advise("read with fs/readFile and the like, or start a program, which runs as that user")
}

// place returns the place of a path that the call reads or writes. Only call.do may call place: the rule is known then.
func (call *fileCall) place(path string, writes bool) (files.Place, error) {
	p := files.Place{Path: path, Visit: call.visit}
	if call.rule == nil {
		return p, nil
	}
	root, ok := call.rule.ReadRoot(path)
	p.Word = rules.Read
	if writes {
		root, ok = call.rule.WriteRoot(path)
		p.Word = rules.Write
	}
	if !ok {
		return files.Place{}, &rules.Refusal{What: "path", Name: path, Word: p.Word}
	}
	p.Root = root
	return p, nil
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

// work makes a call by a Caller, and returns what the client gets.
type work func(ctx context.Context, by files.Caller, c files.Call) (any, error)

// value is the work of a call whose value is for the client.
func value(ctx context.Context, by files.Caller, c files.Call) (any, error) {
	r, err := by(ctx, c)
	return r.Value, err
}

// makes prepares the call c about the file at a URI. The client gets its value.
func (call *fileCall) makes(uri string, c files.Call) error { return call.works(uri, c, value) }

// moves prepares a call that takes what it writes from the file at another URI.
func (call *fileCall) moves(from, to string, c files.Call) (err error) {
	if c.From.Path, err = pathOf(from); err != nil {
		return err
	}
	err = call.makes(to, c)
	call.change.From = audit.Text(c.From.Path)
	return err
}

// works prepares the call c about the file at a URI; do makes the call. If c may change the file, the rule and the sandbox must allow
// that, and the call is recorded.
func (call *fileCall) works(uri string, c files.Call, do work) (err error) {
	c.At.Path, err = pathOf(uri)
	if c.Changes() {
		call.change = &audit.FileChange{Path: audit.Text(c.At.Path)}
	}
	call.ruled, call.serves = true, true
	call.do = func(ctx context.Context) (result any, err error) {
		if c.At, err = call.place(c.At.Path, c.Changes()); err != nil {
			return nil, err
		}
		if c.From.Path != "" {
			if c.From, err = call.place(c.From.Path, c.ChangesFrom()); err != nil {
				return nil, err
			}
		}
		by, err := call.by(ctx, c.Changes())
		if err != nil {
			return nil, err
		}
		return do(ctx, by, c)
	}
	return err
}

// allToRead returns the places of URIs that the call reads.
func (call *fileCall) allToRead(uris []string) (places []files.Place, err error) {
	for _, uri := range uris {
		path, err := pathOf(uri)
		if err != nil {
			return nil, err
		}
		place, err := call.place(path, false)
		if err != nil {
			return nil, err
		}
		places = append(places, place)
	}
	return places, nil
}
