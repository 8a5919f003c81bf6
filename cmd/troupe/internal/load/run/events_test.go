//go:build unix

package run

import (
	"context"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/protocol"
)

// notified hands a notification to v.
func notified(codec protocol.Codec, v *events, method string, params any) error {
	frame, err := codec.AppendNotification(nil, method, params)
	if err != nil {
		return err
	}
	m, err := codec.Decode(frame)
	if err != nil {
		return err
	}
	return v.notified(m, time.Now())
}

// Events of every kind reach the caller, repeats and holes included.
func TestEvents(t *testing.T) {
	long := strings.Repeat("i", 40) // too long for a short string of msgpack
	for _, codec := range []protocol.Codec{protocol.JSON, protocol.Msgpack} {
		var got []string
		v := &events{codec: codec, take: func(process string, e *oracle.Event, at time.Time) {
			text := fmt.Sprintf("%s: %s seq %d stream %d %q code %d %q run %d from %d", process, e.Kind, e.Seq, e.Stream, e.Data, e.Code, e.Signal, e.Run, e.From)
			if e.Reason != "" {
				text += " reason " + e.Reason
			}
			got = append(got, text)
		}}
		var want []string
		for _, n := range []struct {
			method string
			params any
			event  string // "": none
		}{
			{protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "a", Seq: 1, Stream: protocol.Stdout, Chunk: []byte("one")}, `a: output seq 1 stream 1 "one" code 0 "" run 0 from 0`},
			{protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "a", Seq: 1, Stream: protocol.Stdout, Chunk: []byte("one")}, `a: output seq 1 stream 1 "one" code 0 "" run 0 from 0`},
			{protocol.NotifyOutput, protocol.OutputNotification{ProcessID: `"\`, Seq: 7, Stream: protocol.Stderr, Chunk: []byte{}}, `"\: output seq 7 stream 2 "" code 0 "" run 0 from 0`},
			{protocol.NotifyOutput, protocol.OutputNotification{ProcessID: long, Seq: 8, Stream: protocol.PTY, Chunk: []byte("x")}, long + `: output seq 8 stream 3 "x" code 0 "" run 0 from 0`},
			{protocol.NotifyOutput, protocol.OutputNotification{ProcessID: "", Seq: 9, Stream: protocol.PTY, Chunk: []byte("y")}, `: output seq 9 stream 3 "y" code 0 "" run 0 from 0`},
			{protocol.NotifyGap, protocol.GapNotification{ProcessID: "a", Seq: 5, FromSeq: 2, ToSeq: 5}, `a: gap seq 5 stream 0 "" code 0 "" run 0 from 2`},
			{protocol.NotifyReady, protocol.ReadyNotification{ProcessID: "a", Seq: 6, Run: 1}, `a: ready seq 6 stream 0 "" code 0 "" run 1 from 0`},
			{protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 137, Signal: "KILL", Run: 1}}, `a: exited seq 7 stream 0 "" code 137 "KILL" run 1 from 0`},
			{protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 143, TimedOut: true, Reason: "timed out"}}, `a: exited seq 7 stream 0 "" code 143 "" run 0 from 0 reason timed out`},
			{protocol.NotifyExited, protocol.ExitedNotification{ProcessID: "a", Seq: 7, ExitStatus: protocol.ExitStatus{ExitCode: 137, OOMKilled: true}}, `a: exited seq 7 stream 0 "" code 137 "" run 0 from 0 reason out of memory`},
			{protocol.NotifyRestarted, protocol.RestartedNotification{ProcessID: "a", Seq: 8, Run: 2}, `a: restarted seq 8 stream 0 "" code 0 "" run 2 from 0`},
			{protocol.NotifyEvicted, protocol.EvictedNotification{ProcessID: "a", Seq: 9}, `a: evicted seq 9 stream 0 "" code 0 "" run 0 from 0`},
			{protocol.NotifyClosed, protocol.ClosedNotification{ProcessID: "a", Seq: 10}, `a: closed seq 10 stream 0 "" code 0 "" run 0 from 0`},
			{"some/other", protocol.Empty{}, ""},
		} {
			if err := notified(codec, v, n.method, n.params); err != nil {
				t.Errorf("%s: %s: %v", codec.Name(), n.method, err)
			}
			if n.event != "" {
				want = append(want, n.event)
			}
		}
		if got, want := strings.Join(got, "\n"), strings.Join(want, "\n"); got != want {
			t.Errorf("%s: the events are\n%s\nexpected\n%s", codec.Name(), got, want)
		}
	}
}

// An event without a required member is an error, and no event.
func TestEventsUnreadable(t *testing.T) {
	v := &events{codec: protocol.JSON, take: func(process string, e *oracle.Event, at time.Time) { t.Errorf("%s of %q came", e.Kind, process) }}
	for _, frame := range []string{
		`{"method":"process/output","params":{"processId":"a","stream":"stdout","chunk":""}}`, // no seq
		`{"method":"process/exited","params":{"processId":"a","seq":1}}`,                      // no code
	} {
		m, err := protocol.JSON.Decode([]byte(frame))
		if err != nil {
			t.Fatal(err)
		}
		if v.notified(m, time.Now()) == nil {
			t.Errorf("%s was read", frame)
		}
	}
}

// Output of one process after the other allocates nothing but an id now and then.
func TestOutputAllocates(t *testing.T) {
	for _, codec := range []protocol.Codec{protocol.JSON, protocol.Msgpack} {
		count := 0
		v := &events{codec: codec, take: func(process string, e *oracle.Event, at time.Time) {
			if process != "p0" && process != "p1" || len(e.Data) != 1000 {
				t.Errorf("%q wrote %d bytes", process, len(e.Data))
			}
			count++
		}}
		var frames [4][]byte
		for i := range frames {
			var err error
			frames[i], err = codec.AppendNotification(nil, protocol.NotifyOutput, &protocol.OutputNotification{
				ProcessID: fmt.Sprintf("p%d", i/2), Seq: 12345, Stream: protocol.Stdout, Chunk: make([]byte, 1000),
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		now := time.Now()
		allocs := testing.AllocsPerRun(100, func() {
			for _, frame := range frames {
				m, err := codec.Decode(frame)
				if err == nil {
					err = v.notified(m, now)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
		if allocs > 2 || count < 400 {
			t.Errorf("%s: %v allocations for 2 outputs of each of 2 processes; %d events", codec.Name(), allocs, count)
		}
	}
}

// A connection reads little at once: thousands of connections keep as much.
func TestReadBuffer(t *testing.T) {
	f := serveFake(t)
	e, _, _ := openFake(t, f)
	var conn *meteredConn
	ended := make(chan struct{})
	c, err := e.dialEvents(t.Context(), f.url, func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		conn = &meteredConn{TCPConn: c.(*net.TCPConn)}
		return conn, nil
	}, nil, func(error) { close(ended) })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Call(t.Context(), "x", nil, nil); err != nil {
		t.Error(err)
	}
	c.Close()
	<-ended
	if got := conn.room.Load(); got != readBuffer {
		t.Errorf("a read has room for %d bytes, expected %d", got, readBuffer)
	}
}

// A meteredConn records the largest room of its reads.
type meteredConn struct {
	*net.TCPConn
	room atomic.Int64
}

func (c *meteredConn) Read(p []byte) (int, error) {
	c.room.Store(max(c.room.Load(), int64(len(p)))) // only the reading goroutine calls Read
	return c.TCPConn.Read(p)
}
