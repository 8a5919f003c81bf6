package actors_test

import (
	"cmp"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

// The whole way from a client over a websocket to a real process and back, in one
// program: what is counted is what client, server and transport allocate together. How
// fast it is between two programs tests/bench tells.

// bencher is a client with next to no allocations.
type bencher struct {
	b     *testing.B
	conn  transport.Conn
	codec protocol.Codec
	buf   []byte
	id    int64
	out   protocol.OutputNotification
}

func newBencher(b *testing.B, codec protocol.Codec, config actors.Config) *bencher {
	quiet := slog.New(slog.DiscardHandler)
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }), actor.WithDeadLetterThrottleInterval(10*time.Millisecond))
	config.Log, config.ClosedRetention = quiet, cmp.Or(config.ClosedRetention, -1)
	troupe, err := actors.Start(system, config)
	if err != nil {
		b.Fatal(err)
	}
	server, err := transport.Listen("ws://127.0.0.1:0", &transport.ServerOptions{Subprotocols: []string{"troupe." + codec.Name()}})
	if err != nil {
		b.Fatal(err)
	}
	go server.Serve(func(c transport.Conn) { troupe.Accept(c, c.About()) })
	conn, err := transport.Dial(b.Context(), server.URL(), &transport.DialOptions{Subprotocols: []string{"troupe." + codec.Name()}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		conn.Close(transport.CloseNormal, "")
		server.Close()
		if err := troupe.Kill(); err != nil {
			b.Error(err)
		}
	})
	c := &bencher{b: b, conn: conn, codec: codec}
	c.call(protocol.MethodInitialize, protocol.InitializeParams{ClientName: "bench"})
	if c.buf, err = codec.AppendNotification(c.buf[:0], protocol.MethodInitialized, protocol.Empty{}); err == nil {
		err = conn.WriteMessage(c.buf, codec.Binary())
	}
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *bencher) send(method string, params any) {
	var err error
	c.id++
	if c.buf, err = c.codec.AppendRequest(c.buf[:0], protocol.IntID(c.id), method, params); err == nil {
		err = c.conn.WriteMessage(c.buf, c.codec.Binary())
	}
	if err != nil {
		c.b.Fatal(err)
	}
}

// next returns the next message; output is in c.out.
func (c *bencher) next() protocol.Message {
	frame, err := c.conn.ReadMessage()
	if err != nil {
		c.b.Fatal(err)
	}
	m, err := c.codec.Decode(frame)
	if err == nil && m.Method == protocol.NotifyOutput {
		err = c.codec.Unmarshal(m.Payload, &c.out)
	}
	if err != nil {
		c.b.Fatal(err)
	}
	if m.Kind == protocol.Failure {
		c.b.Fatal(m.Error)
	}
	return m
}

func (c *bencher) call(method string, params any) {
	c.send(method, params)
	for c.next().Kind != protocol.Response {
	}
}

func (c *bencher) start(id string, tty bool, argv ...string) {
	c.send(protocol.MethodProcessStart, protocol.ProcessStartParams{
		ProcessID: id, Argv: argv, Cwd: "file:///tmp", Env: map[string]string{"PATH": "/usr/bin:/bin"}, TTY: tty})
}

func eachCodec(b *testing.B, body func(*testing.B, *bencher)) {
	for _, codec := range []protocol.Codec{protocol.JSON, protocol.Msgpack} {
		b.Run(codec.Name(), func(b *testing.B) { body(b, newBencher(b, codec, actors.Config{})) })
	}
}

// BenchmarkStart: from process/start to closed.
func BenchmarkStart(b *testing.B) {
	eachCodec(b, func(b *testing.B, c *bencher) {
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			c.start(strconv.Itoa(n), false, "/bin/true")
			for c.next().Method != protocol.NotifyClosed {
			}
		}
	})
}

// BenchmarkEcho: from a keystroke to its echo by the terminal.
func BenchmarkEcho(b *testing.B) {
	eachCodec(b, func(b *testing.B, c *bencher) {
		c.start("tty", true, "/bin/sh", "-c", "stty -icanon; echo; exec cat >/dev/null")
		for c.next().Method != protocol.NotifyOutput {
		}
		key := protocol.ProcessWriteParams{ProcessID: "tty", Chunk: []byte("k")}
		b.ReportAllocs()
		for n := 0; b.Loop(); n++ {
			key.WriteID = strconv.Itoa(n)
			c.send(protocol.MethodProcessWrite, &key)
			for c.next().Method != protocol.NotifyOutput {
			}
		}
	})
}

// BenchmarkOutput: a chunk of 128 KiB from a pipe.
func BenchmarkOutput(b *testing.B) { eachCodec(b, flood) }

// BenchmarkOutputWithRates is BenchmarkOutput with limits for identities that are never reached.
func BenchmarkOutputWithRates(b *testing.B) {
	const never = 1 << 50
	flood(b, newBencher(b, protocol.Msgpack, actors.Config{MaxOutputRateEach: never, MaxStdinRateEach: never, MaxRetainedEach: never}))
}

func flood(b *testing.B, c *bencher) {
	c.start("flood", false, "/bin/sh", "-c", "exec dd if=/dev/zero bs=128K 2>/dev/null")
	const chunk = 128 << 10
	b.SetBytes(chunk)
	b.ReportAllocs()
	got := 0
	for b.Loop() {
		for ; got < chunk; got += len(c.out.Chunk) {
			for c.next().Method != protocol.NotifyOutput {
			}
		}
		got -= chunk
	}
	c.call(protocol.MethodProcessTerminate, protocol.ProcessTerminateParams{ProcessID: "flood"})
	if len(c.out.Chunk) == 0 {
		b.Error(fmt.Errorf("no output"))
	}
}
