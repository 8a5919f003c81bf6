package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"
)

const mib = 1 << 20

// Attacks on memory.
var memoryAttacks = []*attack{
	{
		name: "large messages",
		does: "Sends messages of 30 MiB on 40 connections at once, four times.",
		must: "Each is answered, or told to try again later. Memory stays bounded over all connections.",
		run:  largeMessages,
	},
	{
		name: "bombs",
		does: "Sends JSON and msgpack that is nested deep, or announces lengths that it does not have.",
		must: "Each is refused, and costs no more than it weighs.",
		run:  bombs,
	},
}

func largeMessages(ctx context.Context, t *target) error {
	const size = 15 * mib // of a frame
	parts := [][]byte{
		[]byte(`{"id":` + expectedID + `,"method":"process/info","params":{"processId":"` + strings.Repeat("x", size-100)),
		[]byte(strings.Repeat("x", size-3) + `"}}`),
	}
	var answered, later atomic.Int64
	err := parallel(40, 40, func(int) error {
		for range t.n(4, 1) {
			p, err := t.open(ctx, nil, nil)
			if err != nil {
				return err
			}
			answer := p.expect()
			for i, part := range parts {
				head := []byte{byte(1 - i | i<<7), 0x80 | 127, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
				binary.BigEndian.PutUint64(head[2:], uint64(len(part)))
				p.writeRaw(2*answerWithin, head, part) // the server may end the connection
			}
			switch err := p.await(ctx, "process/info", answer, nil); {
			case refusal(err) != nil: // there is no such process
				answered.Add(1)
			case websocket.IsCloseError(p.ended(), websocket.CloseTryAgainLater):
				later.Add(1)
			default:
				return err
			}
			p.cut()
		}
		return nil
	})
	t.note("%d answered, %d told to try again later", answered.Load(), later.Load())
	if err != nil {
		return err
	}
	return t.othersGoOn(ctx)
}

func bombs(ctx context.Context, t *target) error {
	const n = 4 * mib
	deep := func(open, end string) string {
		return `{"id":1,"method":"process/start","params":` + strings.Repeat(open, n/len(open)) + "1" + strings.Repeat(end, n/len(open)) + `}`
	}
	for _, text := range []string{
		deep("[", "]"), deep(`{"a":`, "}"), strings.Repeat("[", n), strings.Repeat(`{"":`, n/4),
		`{"id":` + strings.Repeat("9", n) + `,"method":"x"}`,
		`{"id":1,"method":"` + strings.Repeat(`\u0000`, n/6) + `"}`,
		`{"id":1,"method":"initialize","params":{"clientName":"x","resumeFrom":{` + strings.TrimSuffix(strings.Repeat(`"a":1,`, n/6), ",") + `}}}`,
		strings.Repeat(" ", n),
	} {
		if err := bomb(ctx, t, "", websocket.TextMessage, []byte(text)); err != nil {
			return err
		}
	}
	for _, data := range [][]byte{
		bytes.Repeat([]byte{0x91}, n), bytes.Repeat([]byte{0x81, 0xa1, 'a'}, n/3),
		{0xdf, 0xff, 0xff, 0xff, 0xff}, {0xdd, 0xff, 0xff, 0xff, 0xff}, {0x81, 0xdb, 0xff, 0xff, 0xff, 0xff},
		{0x81, 0xa2, 'i', 'd', 0xc6, 0xff, 0xff, 0xff, 0xff}, {0xc9, 0xff, 0xff, 0xff, 0xff, 1},
		bytes.Repeat([]byte{0xdd, 0x00, 0x10, 0x00, 0x00}, n/5),
	} {
		if err := bomb(ctx, t, "troupe.msgpack", websocket.BinaryMessage, data); err != nil {
			return err
		}
	}
	return t.othersGoOn(ctx)
}

// bomb sends a message, and expects an answer or the end of the connection.
func bomb(ctx context.Context, t *target, protocol string, kind int, data []byte) error {
	p, err := t.dial(ctx, dialOptions{protocol: protocol, deaf: true})
	if err != nil {
		return err
	}
	defer p.cut()
	if err := p.write(kind, data); err != nil {
		return nil // the connection has ended
	}
	p.ws.SetReadDeadline(time.Now().Add(answerWithin))
	if _, _, err := p.ws.ReadMessage(); err != nil {
		if _, closed := err.(*websocket.CloseError); !closed {
			return fmt.Errorf("after %.40q: %w", data, err)
		}
	}
	return nil
}
