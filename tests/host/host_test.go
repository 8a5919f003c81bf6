// Package host_test is like a host in another module: the files import no internal package of this module, and make
// every option of a troupe.
package host_test

import (
	"bytes"
	"context"
	"errors"
	"go/parser"
	"go/token"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/b6f6fdd7/troupe/transport/auth"
)

const limit = time.Minute

// guests is a Checker of a host: a token is the name of ann or bob.
type guests struct{}

func (guests) Check(token string, _ time.Time) (auth.Identity, error) {
	if token != "ann" && token != "bob" {
		return auth.Identity{}, errors.New("the token is unknown")
	}
	return actors.Identity{Name: token, Observes: []string{"ann"}}, nil
}

// client is an actor of the host. The actor attaches as an identity, and passes answers on.
type client struct {
	troupe  *actor.PID
	as      actors.Identity
	params  []any // of requests to the session
	answers chan<- any
}

func (c *client) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		ctx.Request(c.troupe, actors.Attach{Identity: c.as})
	case actors.Attached:
		for i, p := range c.params {
			ctx.Request(m.Session, actors.Request{Token: uint64(i), Params: p})
		}
	case actors.Reply:
		if m.Err != nil {
			c.answers <- m.Err
			return
		}
		c.answers <- m.Result
	}
}

// ask attaches as an identity with a name, sends a request, and returns the answer.
func ask(t *testing.T, system *actor.ActorSystem, troupe *actors.Troupe, name string, params any) any {
	t.Helper()
	answers := make(chan any, 1)
	pid := system.Root.Spawn(actor.PropsFromProducer(func() actor.Actor {
		return &client{troupe: troupe.PID(), as: actors.Identity{Name: name}, params: []any{params}, answers: answers}
	}))
	t.Cleanup(func() { system.Root.Stop(pid) })
	select {
	case a := <-answers:
		return a
	case <-time.After(limit):
		t.Fatalf("no answer for %s to %T", name, params)
		return nil
	}
}

func TestHostHasAllOptions(t *testing.T) {
	t.Parallel()
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	policy, record := filepath.Join(dir, "policy"), filepath.Join(dir, "audit")
	if err := os.WriteFile(policy, []byte("ann run /**\nann cwd /\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := config.OpenRules(policy, log)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := config.OpenAudit(record, config.AuditOptions{Refuse: true, Argv: true, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	options := struct { // a host may have variables and fields of these types
		rules  *config.Rules
		audit  *config.Audit
		shares *config.Shares
	}{rules, audit, config.NewShares(time.Hour)}

	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }))
	defer system.Shutdown()
	troupe, err := actors.Start(system, actors.Config{Log: log, KillGrace: -1, Rules: options.rules, Audit: options.audit, Shares: options.shares})
	if err != nil {
		t.Fatal(err)
	}
	var memory func() *actors.Memory = troupe.Memory
	server, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{
		Door:   &auth.Door{Bearer: guests{}, Shares: options.shares},
		Memory: func() transport.Memory { return memory() },
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}

	start := protocol.ProcessStartParams{ProcessID: "p", Argv: []string{"/bin/sleep", "1000"}, Cwd: protocol.FileURI("/"), Env: map[string]string{}}
	if result, ok := ask(t, system, troupe, "ann", start).(actors.StartResult); !ok || result.Process.ID != "p" {
		t.Errorf("ann may start programs, and the answer is %+v", result)
	}
	if answer, ok := ask(t, system, troupe, "bob", start).(*protocol.Error); !ok || answer.Kind() != protocol.KindPolicy {
		t.Errorf("the rules permit bob nothing, and the answer is %+v", answer)
	}
	share, _ := ask(t, system, troupe, "ann", protocol.SessionShareParams{Access: protocol.AccessRead}).(protocol.SessionShareResult)
	who, ok := options.shares.Guest(share.Token, time.Now())
	var guest *actors.Guest = who.Guest
	if !ok || guest == nil || guest.Host != "ann" {
		t.Errorf("the token of a share %+v is of %+v", share, who)
	}

	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if err := troupe.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := options.audit.Close(); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(record)
	if err != nil || !bytes.Contains(text, []byte(`"ann"`)) || !bytes.Contains(text, []byte("/bin/sleep")) {
		t.Errorf("the audit log: %v, %s", err, text)
	}
}

// The files of this package import no internal package.
func TestHostImportsNothingInternal(t *testing.T) {
	t.Parallel()
	names, err := filepath.Glob("*.go")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range file.Imports {
			if strings.Contains(i.Path.Value, "/internal/") {
				t.Errorf("%s imports %s, as no host in another module can", name, i.Path.Value)
			}
		}
	}
}
