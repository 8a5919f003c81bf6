package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// Attacks on the access to the server.
var doorAttacks = []*attack{
	{
		name: "silent 300", short: true, smoke: true,
		does: "Opens 300 connections from one address and says nothing on them.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run:  func(ctx context.Context, t *target) error { return silent(ctx, t, 300, 1) },
	},
	{
		name: "silent 2000",
		does: "Opens 2,000 connections from 20 addresses and says nothing on them.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run:  func(ctx context.Context, t *target) error { return silent(ctx, t, 2000, 20) },
	},
	{
		name: "talking 1200",
		does: "Opens 1,200 websockets from 20 addresses and sends a message that is refused on each three times a second.",
		must: "Others connect, resume and ask for /healthz meanwhile.",
		run: func(ctx context.Context, t *target) error {
			_, release := t.occupy(ctx, 1200, 20, talk)
			defer release()
			return t.othersGoOn(ctx)
		},
	},
	{
		name: "empty sessions", bound: 5 * time.Minute,
		does: "Opens 10,500 sessions that may live for 24 h, and leaves each at once.",
		must: "Others still open sessions, and no session with a program ends.",
		run:  emptySessions,
	},
	{
		name: "churn", short: true,
		does: "Connects and leaves, in the middle of the handshake, of initialize, or after it, 2,000 times.",
		must: "Nothing is left.",
		run:  churn,
	},
	{
		name: "initialize at the end", short: true,
		does: "Resumes sessions at the moment at which they are closed.",
		must: "Every initialize is answered at once.",
		run:  lateInitialize,
	},
}

// listen sends nothing until the connection ends.
func listen(c net.Conn) { c.Read(make([]byte, 1)) }

// talk opens a websocket and repeats a refused request until the connection ends.
func talk(c net.Conn) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		io.Copy(io.Discard, c)
	}()
	const refused = `{"id":1,"method":"process/list","params":{}}`
	next := []byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	for {
		c.Write(next)
		select {
		case <-ended:
			return
		case <-time.After(time.Second / 3):
		}
		next = append([]byte{0x81, 0x80 | byte(len(refused)), 0, 0, 0, 0}, refused...) // masked with zeros
	}
}

// occupy opens n TCP connections from several addresses and holds them until release. use returns when
// the server ends the connection, and occupy then opens another. held is the number of connections
// accepted so far.
func (t *target) occupy(ctx context.Context, n, addresses int, use func(net.Conn)) (held *atomic.Int64, release func()) {
	holding, cancel := context.WithCancel(ctx)
	held = new(atomic.Int64)
	silence := make(chan struct{})
	go func() {
		defer close(silence)
		parallel(n, n, func(i int) error {
			from := fmt.Sprintf("127.0.1.%d", 1+i%addresses)
			for holding.Err() == nil {
				c, err := t.connect(holding, from)
				if err != nil {
					hold(holding, 100*time.Millisecond) // the server may refuse
					continue
				}
				held.Add(1)
				stop := context.AfterFunc(holding, func() { c.Close() })
				use(c)
				stop()
				c.Close()
				hold(holding, 10*time.Millisecond)
			}
			return nil
		})
	}()
	return held, func() { cancel(); <-silence }
}

// silent occupies the server until the well-behaved client has gone on.
func silent(ctx context.Context, t *target, n, addresses int) error {
	held, release := t.occupy(ctx, n, addresses, listen)
	defer release()
	err := eventually(ctx, answerWithin, func() error {
		if n := held.Load(); n < 280 {
			return fmt.Errorf("only %d connections were accepted", n)
		}
		return nil
	})
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := t.othersGoOn(ctx); err != nil {
		return err
	}
	if took := time.Since(begin); took > handshakeWithin-time.Second && !t.shared {
		return fmt.Errorf("others came in after %v: when the deadline for silent connections, %v, had passed", took.Round(time.Second/10), handshakeWithin)
	}
	return nil
}

// handshakeWithin is when the server ends silent connections. Source:
// transport.DefaultHandshakeTimeout.
const handshakeWithin = 10 * time.Second

func emptySessions(ctx context.Context, t *target) error {
	var refused atomic.Int64
	err := parallel(t.n(10_500, 300), 16, func(int) error {
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		err = p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 86_400_000}})
		p.cut()
		if refusal(err) != nil {
			refused.Add(1) // the server may refuse
			return nil
		}
		return err
	})
	t.note("%d refused", refused.Load())
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func churn(ctx context.Context, t *target) error {
	err := parallel(t.n(2000, 400), 16, func(i int) error {
		if i%4 == 0 {
			c, err := t.connect(ctx, "")
			if err != nil {
				return err
			}
			c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\n"))
			return c.Close()
		}
		p, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		defer p.reset()
		switch i % 4 {
		case 1:
			return nil
		case 2:
			p.request("initialize", obj{"clientName": "churn", "session": obj{"detachedTtlMs": 100}})
			return nil
		}
		return p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 100}})
	})
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func lateInitialize(ctx context.Context, t *target) error {
	return parallel(t.n(300, 60), 4, func(int) error {
		p, err := t.open(ctx, nil, nil)
		if err != nil {
			return err
		}
		next, err := t.dial(ctx, dialOptions{})
		if err != nil {
			return err
		}
		closed, err := p.request("session/close", obj{})
		if err != nil {
			return err
		}
		begin := time.Now()
		err = next.initialize(ctx, obj{"resumeSessionId": p.session, "takeover": true})
		if errors.Is(err, errNoAnswer) {
			return fmt.Errorf("%w after %v", err, time.Since(begin))
		}
		select {
		case <-closed:
		case <-p.done:
		case <-time.After(answerWithin):
			return fmt.Errorf("session/close: %w", errNoAnswer)
		}
		return nil
	})
}
