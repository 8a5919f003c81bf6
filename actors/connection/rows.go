package connection

import (
	"context"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has what the functions of rows of other packages use.

// A Request is a request of a client, for the function of its row. Only the actor of the connection uses a Request: within that function,
// and within the functions that it gives to Later and Look.
type Request struct {
	c   *connection
	ctx actor.Context
	in  inbound
}

// Method returns the name of the method.
func (r Request) Method() string { return r.in.method }

// Needs returns the capability without which a client of the dialect may not send the request.
func (r Request) Needs() string { return r.in.entry.Needs }

// InDialect reports whether the client speaks the dialect.
func (r Request) InDialect() bool { return r.in.wire == dialect }

// Env returns what all actors share.
func (r Request) Env() *env.Env { return r.c.env }

// Who returns the client, for the audit log.
func (r Request) Who() audit.Who { return r.c.who() }

// Identity returns who the client is.
func (r Request) Identity() identity.Identity { return r.c.about.Identity }

// Owner names the owner of the sessions that the client opens, as message.Attach.From.
func (r Request) Owner() string { return r.c.ownerKey() }

// MaxMessage is the size of the largest message to the client, in bytes.
func (r Request) MaxMessage() int64 { return r.c.limits().MaxMessageBytes }

// Memory returns the account of the connection.
func (r Request) Memory() *budget.Account { return r.c.memory }

// Until returns the context of calls about files: it ends with the connection.
func (r Request) Until() context.Context { return r.c.filesOf().ctx }

// Respond answers the request.
func (r Request) Respond(result any) { r.c.respond(r.in, result) }

// Fail answers the request with an error.
func (r Request) Fail(err *protocol.Error) { r.c.fail(r.in, err) }

// FileError returns the error that answers a request about files which failed with err.
func (r Request) FileError(err error) *protocol.Error { return r.in.fileError(err) }

// Notify sends the client a notification. The writer calls written once the notification has been written; written may not block.
func (r Request) Notify(method string, params any, written func()) {
	r.c.notify(method, params)
	r.c.writer.control(outgoing{written: written})
}

// Refuse keeps notifications from the client, from now on.
func (r Request) Refuse(notifications []string) { r.c.writer.optOut(notifications) }

// Later returns a function that has the actor call do. Any goroutine may call the function.
func (r Request) Later(do func(Request)) func() {
	in := r.in
	in.params = nil
	return r.c.later(r.ctx, func(c *connection, ctx actor.Context) { do(Request{c, ctx, in}) })
}

// Kept returns what the rows of another package keep for a connection: a T, which is zero at first. The actor owns it.
func Kept[T any](r Request) *T {
	kept, ok := r.c.kept.(*T)
	if !ok {
		kept = new(T)
		r.c.kept = kept
	}
	return kept
}

// Look looks at places of files, which may wait for a disk: do gets the place of each URI, which the client may read. The actor calls
// finish with what do returns, and finish answers the request.
func (r Request) Look(uris []string, do func(context.Context, []files.Place) (any, error), finish func(r Request, result any, err error)) {
	r.c.fileRequest(r.ctx, r.in, func(call *fileCall) error {
		call.looks(do, finish, uris)
		return nil
	})
}

// A Reader reads files of this machine for a client, wherever they are.
type Reader struct {
	Home   string       // of the user
	Hidden files.Hidden // what the client must not see. The client can put links to files into the directories that a call searches
	Hold   files.Hold   // for the memory of the result
}

// ReadsFiles returns the handler of a method that reads files of this machine, wherever they are. check refuses params; do waits for disks.
// No jail makes such a call.
func ReadsFiles[P interface{ Unsupported() error }](check func(P) error, do func(context.Context, Reader, P) (any, error)) Handler {
	return ofHandles(Params, func(call *fileCall, p P) error {
		if err := p.Unsupported(); err != nil {
			return err
		}
		if err := check(p); err != nil {
			return err
		}
		call.turn.Large, call.readsAll = true, true
		call.do = func(ctx context.Context) (any, error) {
			r := Reader{Home: call.files.home, Hold: call.hold}
			if call.required {
				r.Hidden = call.files.hidden
			}
			return do(ctx, r, p)
		}
		return nil
	})
}
