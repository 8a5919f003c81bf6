package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// askTime is how long a server may take to answer a command that only looks.
const askTime = 20 * time.Second

// A sight is a server as a command sees it: its sessions with their processes, and connections to some of them.
type sight struct {
	target   *target.Flags
	sessions []protocol.SessionDetails
	holder   *protocol.HolderInfo // of lookServer; nil: unknown
	observe  bool                 // the command changes nothing
	clients  map[string]*client.Client
}

// A named is a process named by a person.
type named struct {
	pick.Ref
	name string // the words of the person
	info protocol.ProcessInfoResult
}

// look asks the server for its processes. close the sight after use.
func look(ctx context.Context, t *target.Flags, detail protocol.Detail) (*sight, error) {
	return lookTwice(ctx, t, detail, false)
}

// lookServer is look, and also asks about the holder of the server.
func lookServer(ctx context.Context, t *target.Flags) (*sight, error) {
	return lookTwice(ctx, t, protocol.DetailInfo, true)
}

// lookTwice asks a second time if the server dies over the first question: the next server may be there.
func lookTwice(ctx context.Context, t *target.Flags, detail protocol.Detail, holder bool) (*sight, error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	s, err := lookOnce(ctx, t, detail, holder)
	if transport.IsCut(err) {
		return lookOnce(ctx, t, detail, holder)
	}
	return s, err
}

func lookOnce(ctx context.Context, t *target.Flags, detail protocol.Detail, holder bool) (*sight, error) {
	c, err := t.Control(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	s := &sight{target: t, clients: make(map[string]*client.Client)}
	list, err := c.SessionList(ctx, protocol.SessionListParams{Detail: detail})
	if s.sessions = list.Sessions; len(list.Unanswered) > 0 {
		fmt.Fprintf(os.Stderr, "troupe: these nodes do not answer, and their sessions are left out: %s\n", show.Harmless(strings.Join(list.Unanswered, ", ")))
	}
	if err == nil && holder {
		s.holder, err = holderOf(ctx, c)
	}
	return s, err
}

// holderOf asks a server about its holder. nil: an older server, or the client is a guest and may not know.
func holderOf(ctx context.Context, c *client.Client) (*protocol.HolderInfo, error) {
	info, err := c.ServerInfo(ctx)
	if refused, ok := errors.AsType[*protocol.Error](err); ok && refused.Code == protocol.CodeObserver {
		err = nil
	}
	return info.Holder, err
}

// gap says how long nobody served.
func gap(ms uint64) string { return (time.Duration(min(ms, 1<<40)) * time.Millisecond).String() }

// replaced says in words how a server came.
func replaced(r *protocol.Replacement) string {
	how := "replaced by an upgrade"
	if r.Reason != protocol.ReplacedByUpgrade {
		how = "replaced after its death (" + show.Harmless(r.Reason) + ")"
	}
	return fmt.Sprintf("%s %s ago; nobody served for %s", how, show.Age(time.Since(time.UnixMilli(r.AtMs))), gap(r.GapMs))
}

// close closes all connections.
func (s *sight) close() {
	for _, c := range s.clients {
		c.Close()
	}
	clear(s.clients)
}

// find finds processes by names and patterns from a person, each process once. The error has all names without a
// process.
func (s *sight) find(names []string) (found []named, err error) {
	for _, name := range names {
		refs, e := pick.FindProcesses(s.sessions, name)
		if e != nil {
			err = errors.Join(err, e)
			continue
		}
		for _, ref := range refs {
			words := name
			if strings.ContainsAny(name, "*?[") { // a pattern
				words = pick.Name(s.sessions, ref)
			}
			found = withNamed(found, named{Ref: ref, name: words, info: s.info(ref)})
		}
	}
	return found, err
}

// withNamed returns found and more, each process once.
func withNamed(found []named, more ...named) []named {
	for _, n := range more {
		if !slices.ContainsFunc(found, func(has named) bool { return has.Ref == n.Ref }) {
			found = append(found, n)
		}
	}
	return found
}

// all returns the processes of a session; "": of all sessions.
func (s *sight) all(session string) (found []named) {
	for _, d := range s.sessions {
		for _, p := range d.List {
			if ref := (pick.Ref{Session: d.SessionID, Process: p.ProcessID}); session == "" || session == d.SessionID {
				name := ref.Process
				if session == "" {
					name = pick.Name(s.sessions, ref)
				}
				found = append(found, named{Ref: ref, name: name, info: p})
			}
		}
	}
	return found
}

// only leaves out all sessions but the one that a person means.
func (s *sight) only(session string) error {
	found, err := pick.FindSession(s.sessions, session)
	if err == nil {
		s.sessions = []protocol.SessionDetails{*found}
	}
	return err
}

// session returns the session with an id. A session that the sight lacks is empty.
func (s *sight) session(id string) (found protocol.SessionDetails) {
	if i := slices.IndexFunc(s.sessions, func(d protocol.SessionDetails) bool { return d.SessionID == id }); i >= 0 {
		found = s.sessions[i]
	}
	return found
}

func (s *sight) info(r pick.Ref) protocol.ProcessInfoResult {
	for _, p := range s.session(r.Session).List {
		if p.ProcessID == r.Process {
			return p
		}
	}
	return protocol.ProcessInfoResult{}
}

// left says how the owner of a process has left, as why.Left.
func (s *sight) left(n *named) string {
	session := s.session(n.Session)
	return why.Left(&session.SessionSummary, &n.info.ProcessInfo, time.Now())
}

// join returns a connection to a session, beside its owner. close closes the connection.
func (s *sight) join(ctx context.Context, session string, o client.Options) (*client.Client, error) {
	if c := s.clients[session]; c != nil {
		return c, nil
	}
	o.Name, o.Session, o.Observe, o.Control = "troupe", session, s.observe, !s.observe
	c, err := s.target.Dial(ctx, &o)
	if err == nil {
		s.clients[session] = c
	}
	return c, err
}

// process returns a handle of a process, and connects to its session.
func (s *sight) process(ctx context.Context, r pick.Ref, o client.Options) (*client.Process, error) {
	c, err := s.join(ctx, r.Session, o)
	if err != nil {
		return nil, err
	}
	return c.Process(r.Process).Of(s.info(r).Instance), nil
}

// each calls do for every named process, in turn, and returns all errors.
func each(cmd *cobra.Command, t *target.Flags, names []string, do func(context.Context, *client.Process, *named) error) error {
	return untilSignal(cmd, func(ctx context.Context) error {
		s, err := look(ctx, t, protocol.DetailInfo)
		if err != nil {
			return err
		}
		defer s.close()
		found, errs := s.find(names)
		for i := range found {
			n := &found[i]
			p, err := s.process(ctx, n.Ref, client.Options{})
			if err == nil {
				err = do(ctx, p, n)
			}
			if err != nil {
				errs = errors.Join(errs, fmt.Errorf("%s: %w", show.Harmless(n.name), advised(err)))
			}
			if ctx.Err() != nil {
				break
			}
		}
		return errs
	})
}

// advised replaces the refusal of a request by what a person at a shell can do, if the command knows.
func advised(err error) error {
	switch kind := client.Kind(err); {
	case errors.Is(err, client.ErrStdinClosed):
		return errors.New("its stdin is closed: troupe run --detach --stdin keeps the stdin of a program open")
	case kind == protocol.KindNoTTY:
		return errors.New("it has no terminal: start it with troupe run --tty")
	}
	return err
}
