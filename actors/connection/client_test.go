package connection

import (
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// quiet is an Env without a log.
func quiet(c config.Config) *env.Env {
	c.Log = slog.New(slog.DiscardHandler)
	return &env.Env{Config: c.WithDefaults()}
}

// client is the client of a connection under test.
type client struct {
	t *testing.T
	transport.Conn
	connection *actor.PID
}

// connect connects a client to a troupe. wrap may replace the connection's side of the pipe; nil: it does not.
func connect(t *testing.T, spawn func(actor.Producer) *actor.PID, e *env.Env, troupe *actor.PID, wrap func(transport.Conn) transport.Conn) *client {
	ours, theirs := transport.Pipe("")
	if wrap != nil {
		theirs = wrap(theirs)
	}
	return &client{t, ours, spawn(func() actor.Actor { return connectionOf(e, All, troupe, message.Connect{Conn: theirs}) })}
}

func (c *client) send(texts ...string) {
	c.t.Helper()
	for _, text := range texts {
		if err := c.WriteMessage([]byte(text), false); err != nil {
			c.t.Fatal(err)
		}
	}
}

// open sends the handshake, with more members of the params of initialize. The answer has the id 1.
func (c *client) open(more string) {
	c.t.Helper()
	c.send(`{"id":1,"method":"initialize","params":{"clientName":"test"`+more+`}}`, `{"method":"initialized"}`)
}

// receive returns the next message of the server.
func (c *client) receive() string {
	c.t.Helper()
	m, err := c.ReadMessage()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(m)
}

// messages passes on all messages of the server, and then the error that ends them.
func (c *client) messages() (all chan string, ended chan error) {
	all, ended = make(chan string, 10), make(chan error, 1)
	go func() {
		defer close(all)
		for {
			m, err := c.ReadMessage()
			if err != nil {
				ended <- err
				return
			}
			all <- string(m)
		}
	}()
	return all, ended
}

// leave closes the connection.
func (c *client) leave() {
	c.Close(protocol.CloseNormal, "")
	synctest.Wait()
}

// owns answers an Attach: the sender becomes the owner of session s, which has these processes.
func owns(ctx actor.Context, m message.Attach, role protocol.Role, processes ...string) {
	answer := message.Attached{Token: m.Token, SessionID: "s", Session: ctx.Self(), Role: role}
	for _, id := range processes {
		answer.Processes = append(answer.Processes, message.ProcessRef{ID: id, PID: ctx.Self()})
	}
	ctx.Respond(answer)
}
