package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// answerTime is how long an asker waits for an answer before it connects again.
const answerTime = 10 * time.Second

// shortCut is how long a connection may be lost before a command says so.
const shortCut = time.Second

// An asker asks a server again and again for its sessions. After an error, the next question makes a new connection:
// the session of a command that only looks ends with its connection, so there is nothing to resume.
type asker struct {
	target *target.Flags
	name   string // of the server, for people

	mu     sync.Mutex
	client *client.Client // nil: the connection was lost
}

// newAsker connects, so that a wrong address is an error at once.
func newAsker(ctx context.Context, t *target.Flags) (*asker, error) {
	found, err := t.Target()
	if err != nil {
		return nil, err
	}
	a := &asker{target: t, name: found.String()}
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	if a.client, err = t.Control(ctx); err != nil {
		return nil, err
	}
	t.Note = func(string) {} // it was told once
	return a, nil
}

func (a *asker) close() { a.drop(nil) }

// drop closes the connection. With a client, only that connection.
func (a *asker) drop(c *client.Client) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.client != nil && (c == nil || c == a.client) {
		go a.client.Close() // a dead link may take long
		a.client = nil
	}
}

// ask asks for something within a time, over a new connection if there is none.
func ask[T any](ctx context.Context, a *asker, within time.Duration, question func(context.Context, *client.Client) (T, error)) (answer T, err error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	a.mu.Lock()
	if a.client == nil {
		a.client, err = a.target.Control(ctx)
	}
	c := a.client
	a.mu.Unlock()
	if err != nil {
		return answer, err
	}
	if answer, err = question(ctx, c); err != nil {
		a.drop(c)
	}
	return answer, err
}

// list asks for the sessions of others.
func (a *asker) list(ctx context.Context, detail protocol.Detail) ([]protocol.SessionDetails, error) {
	return ask(ctx, a, answerTime, func(ctx context.Context, c *client.Client) ([]protocol.SessionDetails, error) {
		list, err := c.Sessions(ctx, detail)
		return slices.DeleteFunc(list, func(l protocol.SessionDetails) bool { return l.SessionID == c.SessionID() }), err
	})
}
