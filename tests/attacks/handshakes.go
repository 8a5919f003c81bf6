package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// Attacks with handshakes that never end.
var handshakeAttacks = []*attack{
	{
		name: "half-open TLS", door: tlsDoor,
		does: "Begins TLS on 10,000 connections from 20 addresses, with half a ClientHello or a whole one, and says no more.",
		must: "Others connect, resume and ask for /healthz meanwhile. The server ends each connection.",
		run:  halfOpenTLS,
	},
	{
		name: "slow headers",
		does: "Sends requests of which a byte comes every 100 ms, on 1,000 connections from 20 addresses.",
		must: "The server ends each connection, although bytes keep coming.",
		run:  slowHeaders,
	},
}

// outlast opens n connections at once, calls begin for each, and waits until the server has ended all of
// them. Meanwhile the well-behaved client must go on.
func outlast(ctx context.Context, t *target, n int, begin func(i int, c net.Conn) error) error {
	var open, opened atomic.Int64
	ended := make(chan error, 1)
	go func() {
		ended <- parallel(n, n, func(i int) error {
			c, err := t.connect(ctx, fmt.Sprintf("127.0.1.%d", 1+i%20))
			if err != nil {
				return err
			}
			defer c.Close()
			opened.Add(1)
			open.Add(1)
			defer open.Add(-1)
			stop := context.AfterFunc(ctx, func() { c.Close() })
			defer stop()
			if err := begin(i, c); err != nil {
				return err
			}
			c.SetReadDeadline(time.Now().Add(2 * answerWithin))
			if _, err := io.Copy(io.Discard, c); os.IsTimeout(err) {
				return fmt.Errorf("the server left a connection open that said nothing for %v", 2*answerWithin)
			}
			return nil
		})
	}()
	for {
		if err := t.othersGoOn(ctx); err != nil {
			return fmt.Errorf("beside %d connections: %w", open.Load(), err)
		}
		select {
		case err := <-ended:
			if err != nil {
				return err
			}
			t.note("%d connections", opened.Load())
			return t.othersGoOn(ctx)
		default:
		}
	}
}

func halfOpenTLS(ctx context.Context, t *target) error {
	hello := clientHello(t.keys.tls())
	return outlast(ctx, t, t.n(10_000, 400), func(i int, c net.Conn) error {
		c.Write(hello[:len(hello)/(2-i%2)])
		return nil
	})
}

// clientHello returns the first bytes of a TLS client.
func clientHello(config *tls.Config) []byte {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go tls.Client(theirs, config).Handshake() // ends with ours
	hello := make([]byte, 1<<16)
	n, _ := ours.Read(hello)
	return hello[:n]
}

func slowHeaders(ctx context.Context, t *target) error {
	return outlast(ctx, t, t.n(1000, 200), func(i int, c net.Conn) error {
		c, err := t.secure(ctx, c)
		if err != nil {
			return nil // the server ended the connection
		}
		begin, _, _ := strings.Cut(handshake(t.bearer), "Sec-")
		text := []byte(begin + "X-Slow: ")
		go io.Copy(io.Discard, c)  // a client of TLS reads alerts
		for n := 0; n < 600; n++ { // a minute: six times as long as the server should wait
			b := byte('a')
			if n < len(text) {
				b = text[n]
			}
			if _, err := c.Write([]byte{b}); err != nil {
				return nil
			}
			hold(ctx, 100*time.Millisecond)
		}
		return fmt.Errorf("the server read a request for a minute")
	})
}
