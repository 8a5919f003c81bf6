package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

// Attacks on who may come in.
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
}

// silent opens n TCP connections from some addresses, and holds them until the
// well-behaved client has gone on. One that the server ends is opened again.
func silent(ctx context.Context, t *target, n, addresses int) error {
	holding, cancel := context.WithCancel(ctx)
	var held atomic.Int64
	silence := make(chan struct{})
	go func() {
		defer close(silence)
		parallel(n, n, func(i int) error {
			from := fmt.Sprintf("127.0.1.%d", 1+i%addresses)
			for holding.Err() == nil {
				c, err := t.connect(holding, from)
				if err != nil {
					hold(holding, 100*time.Millisecond) // refused: that is the server's right
					continue
				}
				held.Add(1)
				stop := context.AfterFunc(holding, func() { c.Close() })
				c.Read(make([]byte, 1))
				stop()
				c.Close()
				hold(holding, 10*time.Millisecond)
			}
			return nil
		})
	}()
	defer func() { cancel(); <-silence }()
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
	if took := time.Since(begin); took > handshakeWithin-time.Second {
		return fmt.Errorf("others came in after %v: when the deadline for silent connections, %v, had passed", took.Round(time.Second/10), handshakeWithin)
	}
	return nil
}

// handshakeWithin is when the server ends connections that say nothing. Source: transport.DefaultHandshakeTimeout.
const handshakeWithin = 10 * time.Second
